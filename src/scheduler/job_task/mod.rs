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
//! | running | the work under the lock: `CurrentRun` | `run`, `current_run`, `attempts`, `blocking` |
//! | ending | the outcome, and the lock until the end is stored: `EndedRun` | `end` |
//!
//! The parts that all phases use: `env` (the job, the clock, the events), `knowledge` (what is known of the
//! fleet's runs, without I/O or a clock), `reading` (reads that from the nodes), `find` and `findings` (ticks that do
//! not run, and why), `reports` (what was reported), `waits` (when to try again), `history` (the runs as the nodes keep them).
//!
//! A run of a parallel job has a slot as its lock, and a task of its own from `running` on: `beside`, with
//! `lanes` for what the runs of a replica share. The job's task waits for the next tick meanwhile.
//!
//! # Invariants
//!
//! * The work runs only under the job's lock or, of a parallel job, under a slot, after a majority of the nodes has stored the claim or, for a
//!   run on demand, has promised not to accept claims of earlier tokens.
//! * A slot is held from before the lock is acquired until the work has ended.
//! * The lock of the run is held until the end of the run is stored, unless it is lost, or the scheduler stops.
//! * A trigger gets exactly one answer.
//! * That a tick does not run is found under the job's lock, and reported once a majority of the nodes has
//!   stored that this replica reports it.

mod acquire;
mod attempts;
mod beside;
mod blocking;
mod claim;
mod control;
mod current_run;
mod end;
mod env;
mod find;
mod findings;
mod history;
mod knowledge;
mod lanes;
mod reading;
mod reports;
mod run;
mod task;
mod waits;

pub(super) use task::{CLOSED, JobTask, REMOVED, SHUT_DOWN};
