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
//! | the life of a job on a replica | `driver`, `learning`, `claiming`, `telling` |
//! | one run of its work | `run`, `attempts`, `blocking` |
//!
//! # Good to know
//!
//! * Until a quorum of nodes has told what was run before, nothing runs, and no event tells of it; a
//!   WARN does. Ticks before that belong to other replicas, or are missed.
//! * A tick that was claimed by a replica whose clock is ahead silences the job until then: for a
//!   minute at most, as the nodes give no lock to whose clock is further ahead of theirs.
//! * A run that crosses the next tick makes that one overlap, also where it started late: with
//!   [`Overlap::Queue`] it is run all the same.
#![cfg_attr(
    feature = "cron",
    doc = r#"
With cron expressions, in time zones:

```
use std::{convert::Infallible, time::Duration};
use tower_redlock::{Job, Redlock, Schedule, Scheduler};

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
let three_at_night = Schedule::cron("0 3 * * *")?.in_tz("Europe/Berlin")?;
let jobs = Scheduler::new(Redlock::embedded())
    .job(Job::new("nightly-report", three_at_night, |cx| async move {
        println!("the report of {:?}, under token {}", cx.tick(), cx.fencing_token());
        Ok::<_, Infallible>(())
    }))
    .start()?;
# assert_eq!(jobs.jobs().len(), 1);
jobs.shutdown(Duration::from_secs(10)).await;

let error = Schedule::cron("0 0 31 2 *").unwrap_err();
assert!(error.to_string().contains("0 0 31 2 *"), "{error}");
# Ok(())
# }
```
"#
)]

mod alarms;
mod attempts;
mod blocking;
mod claiming;
mod context;
mod driver;
mod election;
mod error;
mod event;
mod handle;
mod job;
mod jobs;
mod learning;
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
