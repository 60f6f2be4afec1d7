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
pub use unused::UnusedJob;
