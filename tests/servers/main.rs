//! Locks over real redis-server processes.

#[path = "../support/mod.rs"]
mod support;

mod cases;
mod clocks;
mod conformance;
mod failovers;
mod failures;
mod flavours;
#[cfg(feature = "scheduler")]
mod fleet;
mod guards;
mod jobs;
mod layer;
mod once;
mod sets;
mod support_checks;
#[cfg(feature = "tls")]
mod tls;
mod unstable;
mod wakeups;
