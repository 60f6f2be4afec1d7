//! Locks over nodes inside the process, which answer within the call that asks them.

#[path = "../support/mod.rs"]
mod support;

mod gate;
mod handoff;
mod herd;
mod hot;
mod inspect;
mod line;
mod nodes;
mod verdicts;
mod wall;
