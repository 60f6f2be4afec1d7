//! The task of one job on one replica, from the timer to the stored end of a run.
//!
//! ```text
//!            a tick starts, a trigger,
//!            a request, a state to store
//!   waiting ─────────────────────────────▶ acquiring ──▶ claiming ──▶ running ──▶ ending
//!      ▲                                       │             │            │          │
//!      └───────────────────────────────────────┴─────────────┴────────────┴──────────┘
//!              refused              not due, not stored    lock over       end stored
//! ```
//!
//! | phase | what it has | file |
//! |---|---|---|
//! | waiting | [`JobTask`]: the job, what is known of the fleet, when to try again | `task`, `control` |
//! | acquiring | a slot, then the job's lock: `Acquired` | `acquire` |
//! | claiming | a claim on a majority of the nodes: `ClaimedRun` | `claim` |
//! | running | the work under the lock: `CurrentRun` | `run`, `attempts`, `blocking` |
//! | ending | the outcome, and the lock until the end is stored: `EndedRun` | `end` |
//!
//! The parts that all phases use: `env` (the job, the clock, the events), `knowledge` (what is known of the
//! fleet's runs, without I/O or a clock), `reading` (reads that from the nodes), `reports` (what was
//! reported), `waits` (when to try again), `history` (the runs as the nodes keep them).
//!
//! # Invariants
//!
//! * The work runs only under the job's lock, after a majority of the nodes has stored the claim or, for a
//!   run on demand, has promised not to accept claims of earlier tokens.
//! * A slot is held from before the lock is acquired until the work has ended.
//! * The lock is held until the end of the run is stored, unless it is lost, or the scheduler stops.
//! * A trigger gets exactly one answer.

mod acquire;
mod attempts;
mod blocking;
mod claim;
mod control;
mod end;
mod env;
mod history;
mod knowledge;
mod reading;
mod reports;
mod run;
mod task;
mod waits;

pub(super) use task::{CLOSED, JobTask, REMOVED, SHUT_DOWN};
