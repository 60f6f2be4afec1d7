//! Locks over nodes inside the process, which answer within the call of `send`.

mod blocking;
mod counts;
mod events;
mod gate;
mod handoff;
mod herd;
mod hot;
mod inspect;
mod line;
mod listing;
mod nodes;
mod snapshot;
mod verdicts;
mod wall;
