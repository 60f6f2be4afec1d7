//! Periodic jobs: each tick is run by one replica of the fleet.
//!
//! | part | where |
//! |---|---|
//! | a job: its name, schedule, work and options | [`Job`] |
//! | starting jobs, and stopping them | [`Scheduler`], [`SchedulerHandle`] |
//! | what a run knows | [`JobContext`] |
//! | what is done about missed, overlapping and broken-off runs | [`Missed`], [`Overlap`], [`Claim`] |
//! | what happened, how a job stands | [`JobEvent`], [`JobStatus`] |
//! | what a job does next, without a clock | `policy` |
//! | the life of a job on a replica, and one run | `driver`, `run`, `attempts`, `blocking`, `telling` |

mod alarms;
mod attempts;
mod blocking;
mod context;
mod driver;
mod error;
mod event;
mod handle;
mod job;
mod jobs;
mod options;
mod policy;
mod run;
#[expect(clippy::module_inception, reason = "the file of the type that the module is about")]
mod scheduler;
mod status;
mod telling;
mod work;

pub use context::JobContext;
pub use error::{StartError, UnknownJob};
pub use event::{JobEvent, JobEventKind, SkipReason};
pub use handle::{SchedulerHandle, ShutdownReport};
pub use job::Job;
pub use options::{Claim, Missed, Overlap};
pub use scheduler::Scheduler;
pub use status::{FleetRun, JobCounts, JobStatus, LastRun, Outcome, RunningJob};
pub use work::{JobError, JobResult};
