//! What a fleet stores about its jobs beside the claims of their ticks.
//!
//! | part | where |
//! |---|---|
//! | pauses and requested runs, and their text on the nodes | `control` |
//! | the commands that change them | [`JobCommand`] |
//! | the latest runs, and their text on the nodes | `history` |
//! | reading them, and forgetting a job | `read`, `forget` |

mod command;
mod control;
mod error;
mod forget;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod history;
mod read;

pub use command::JobCommand;
pub(super) use command::{FleetJob, take_request};
pub use control::{JobControl, JobPause, RequestedRun};
pub use error::ControlError;
pub(super) use history::JobRuns;
pub use history::{JobRun, JobRunResult};
pub(super) use read::controls;
