//! Locks over real redis-server processes.

#[path = "../support/mod.rs"]
mod support;

mod cases;
mod clocks;
mod conformance;
mod crowded;
mod failovers;
mod failures;
mod fixture;
mod flavours;
#[cfg(feature = "scheduler")]
mod fleet;
mod guards;
mod layer;
mod once;
mod sets;
mod support_checks;
#[cfg(feature = "tls")]
mod tls;
mod wakeups;
