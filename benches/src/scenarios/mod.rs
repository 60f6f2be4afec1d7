//! The scenarios, a module each: their cases, and how a case is measured.

pub(crate) mod allocations;
pub(crate) mod contended;
pub(crate) mod distance;
pub(crate) mod distinct;
pub(crate) mod faults;
pub(crate) mod handover;
pub(crate) mod layer;
pub(crate) mod linger;
pub(crate) mod listing;
pub(crate) mod many;
pub(crate) mod processes;
pub(crate) mod reader_costs;
pub(crate) mod readers;
pub(crate) mod reconnect;
pub(crate) mod service;
pub(crate) mod slots;
pub(crate) mod waiters;

/// Formats a number of tasks.
pub(crate) fn tasks(count: usize) -> String {
    if count == 1 { "1 task".into() } else { format!("{count} tasks") }
}

/// The names of the scenarios on the command line.
pub(crate) const NAMES: [&str; 16] = [
    "layer",
    "allocations",
    "distance",
    "distinct",
    "faults",
    "contended",
    "processes",
    "slots",
    "readers",
    "handover",
    "waiters",
    "listing",
    "linger",
    "service",
    "many",
    "reconnect",
];
