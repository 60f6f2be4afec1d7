//! Periodic jobs: each tick is run by one replica of the fleet.
//!
//! | part | where |
//! |---|---|
//! | a job: its name, schedule, work and options | [`Job`] |
//! | starting jobs, and stopping them | [`Scheduler`], [`SchedulerHandle`] |
//! | who leads, where one replica is to run all jobs | [`Scheduler::leader_only`], [`Candidate`] |
//! | what a run knows | [`JobContext`] |
//! | what is done about missed, overlapping and broken-off runs | [`Missed`], [`Overlap`], [`Claim`] |
//! | work that is to be run again | [`NotDone`] |
//! | runs on demand | [`Trigger`] |
//! | what happened, how a job stands | [`JobEvent`], [`JobStatus`], [`JobState`] |
//! | what a job does next, without I/O or a clock | `policy` |
//! | the loop of a job on a replica | `driver`, `acquire`, `claim`, `sync`, `reporting` |
//! | one run of its work | `run`, `attempts`, `blocking` |
//! | the checked wall clock | `wall_timer` |
//!
//! # Good to know
//!
//! * Until a quorum of nodes has answered what ran before, nothing runs; a WARN says so, and no
//!   event does. Ticks before that belong to other replicas, or are missed.
//! * Jobs go by the wall clock that a majority of the servers agrees on: that of the own machine may
//!   jump. Over nodes without clocks of their own, as embedded ones, the own clock decides.
//! * What is stored of a job and lies more than a minute ahead of that clock counts as unknown, with
//!   a WARN, until the next run stores it anew. So a wrong clock silences no job for longer.
//! * A schedule that was changed counts from its first start on: what it would have ticked before is
//!   not missed. While two schedules are in use under one name, each replica warns of it.
//! * A run that crosses the next tick makes that one overlap, also where it started late: with
//!   [`Overlap::Queue`] it still runs.
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

mod acquire;
mod attempts;
mod blocking;
mod claim;
mod context;
mod driver;
mod election;
mod error;
mod event;
mod handle;
mod job;
mod options;
mod policy;
mod reporting;
mod run;
#[expect(clippy::module_inception, reason = "the file of the type that the module is about")]
mod scheduler;
mod shared;
mod shared_job;
mod status;
mod sync;
mod trigger;
mod wall_timer;
mod work;

pub use context::JobContext;
#[cfg(feature = "testing")]
pub(crate) use context::RunInfo;
pub use election::Candidate;
pub use error::{StartError, UnknownJob};
pub use event::{JobEvent, JobEventKind, MissReason, SkipReason};
pub use handle::{SchedulerHandle, ShutdownReport};
pub use job::Job;
pub use options::{Claim, Missed, Overlap};
pub use scheduler::Scheduler;
pub use status::{FleetRun, JobCounts, JobState, JobStatus, LastRun, Outcome, RunningJob};
pub use trigger::{Trigger, TriggerError};
pub use work::{JobError, JobResult, NotDone};
