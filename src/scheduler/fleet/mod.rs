//! What a fleet stores about its jobs beside the claims of their ticks.
//!
//! | part | where |
//! |---|---|
//! | pauses, requested runs and stops, and their text on the nodes | `control` |
//! | the commands that change them | [`JobCommand`] |
//! | the latest runs, and their text on the nodes | `history` |
//! | reading them, and forgetting a job | `read`, `forget` |
//! | a job's schedule, as the servers keep it | [`StoredSchedule`] |
//! | jobs that nothing uses any more | [`UnusedJob`] |
//!
//! # Documents (R12)
//!
//! What people decide about a job (a pause, requested runs) and its history are texts on the same
//! registers as the claims, so they are durable, learnt and ordered as claims are. The control is
//! changed under a lock of its own, as the job's lock is held while the job runs, and is read under
//! the job's lock in the round trip of *prepare*. A requested run is removed from the control, under
//! both locks, before it starts: so it starts at most once. An entry without an end is then stored in
//! the history, as no claim shows such a run; so is one of each run of a parallel job. The history is prepared with the claim, so that the end
//! of the run costs one more operation, in parallel with the end of the claim. The next holder of the
//! lock finds an open claim or an open entry, and enters the run as interrupted.
//!
//! To *forget* a job, a client deletes these fields under both locks. A node that missed that keeps
//! them: a claim that a minority keeps does not count, except for the run before it; a document does,
//! so a former pause may return with that node. Therefore the operation is complete only if every
//! node has confirmed it.

mod command;
mod control;
mod error;
mod forget;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod history;
mod read;
mod stored_schedule;
mod unused;

pub use command::JobCommand;
pub(super) use command::{CommandKind, take_request};
pub use control::{JobControl, JobPause, JobStop, RequestedRun};
pub use error::ControlError;
pub(super) use history::JobRuns;
pub use history::{JobRun, JobRunResult};
pub(super) use read::{CONTROL_INTERVAL, controls};
pub use stored_schedule::StoredSchedule;
pub(super) use stored_schedule::schedule_of;
pub use unused::UnusedJob;
