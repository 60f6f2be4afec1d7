//! The pages, and their JSON twins.

mod activity;
mod advice;
mod calendar;
mod confirm;
mod drawing;
mod events;
mod health;
mod job;
mod jobs;
mod layout;
mod leaders;
mod lock;
mod locks;
mod nodes;
mod once;
mod overview;
mod problem;
mod region;
mod sets;
mod standing;
mod timeline;
mod words;

pub(crate) use confirm::ask;
pub(crate) use events::{events, events_json};
pub(crate) use job::{job, job_json};
pub(crate) use jobs::{jobs, jobs_json};
pub(crate) use layout::{Visit, keeping_interval};
pub(crate) use leaders::{leaders, leaders_json};
pub(crate) use lock::{lock, lock_json};
pub(crate) use locks::{locks, locks_json};
pub(crate) use nodes::{nodes, nodes_json};
pub(crate) use once::{once, once_json};
pub(crate) use overview::{overview, overview_json};
pub(crate) use problem::{challenged, forbidden, problem, unconfigured};
