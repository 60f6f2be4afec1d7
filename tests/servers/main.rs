//! Locks over real redis-server processes.

#[path = "../support/mod.rs"]
mod support;

mod cases;
mod clocks;
mod conformance;
mod facts;
mod guards;
mod jobs;
mod layer;
#[cfg(feature = "tls")]
mod tls;
mod wakeups;
mod workbench;
