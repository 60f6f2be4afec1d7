//! A subscriber and a recorder of metrics that call the library again at every event, span and
//! number, and wakers that do so when they are woken and dropped.

mod jobs;
mod local;
mod reenter;
mod servers;
#[path = "../support/mod.rs"]
mod support;
