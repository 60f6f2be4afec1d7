//! Periodic jobs: each tick is run by one replica of the fleet.
//!
//! | part | where |
//! |---|---|
//! | a job: its name, schedule, work and options | [`Job`] |
//! | starting jobs, and stopping them | [`Scheduler`], [`SchedulerHandle`] |
//! | one replica that runs all jobs | [`Scheduler::leader_only`], [`Candidate`] |
//! | the context of a run | [`JobContext`] |
//! | options for missed, overlapping and broken-off runs | [`Missed`], [`Overlap`], [`Claim`] |
//! | work that must run again | [`NotDone`] |
//! | runs on demand | [`Trigger`], [`RequestedRun`] |
//! | pauses and requests of the whole fleet | [`JobCommand`], [`JobControl`] |
//! | the latest runs of the whole fleet | [`JobRun`] |
//! | one tick, without a scheduler | [`TickRequest`] |
//! | conflicts between replicas about a job | [`JobConflict`] |
//! | how runs and ticks ended, for people | [`Scheduler::on_outcome`], [`JobOutcome`] |
//! | events and the status of a job | [`JobEvent`], [`JobStatus`], [`JobState`] |
//! | what a job does next, without I/O or a clock | `redlock_core::policy` |
//! | the task of a job on a replica, phase by phase | `job_task` |
//! | the jobs of a replica, and each as its task and the handle see it | `roster`, `shared_job` |
//! | leadership, controls of the fleet, runs elsewhere, unused jobs | `upkeep` |
//! | the checked wall clock | `wall_timer` |
//!
//! # One tick
//!
//! From the timer to the stored end, a tick goes through six files:
//!
//! 1. `wall_timer` wakes the job's task when the tick starts by the checked wall clock.
//! 2. `job_task/task` asks the policy what is due, and carries it out.
//! 3. `job_task/acquire` waits for a slot, then acquires the job's lock on a quorum of the nodes.
//! 4. `job_task/claim` reads under the lock what ran, decides again, and stores the claim on a majority.
//! 5. `job_task/run` runs the work under the lock, and watches it: stop requests, renewals, the next tick.
//! 6. `job_task/end` stores the end on a majority and in the history, then releases the lock.
//!
//! # Good to know
//!
//! * Until a quorum of nodes has answered what ran before, nothing runs; a WARN says so, and no
//!   event does. Ticks before that belong to other replicas, or are missed.
//! * Jobs use the wall clock that a majority of the servers agrees on, as the local one may jump.
//!   With nodes that have no clock, such as embedded ones, they use the local clock.
//! * Stored times more than a minute ahead of that clock count as unknown, with a WARN, until the
//!   next run replaces them. So a wrong clock does not stop a job for longer.
//! * A changed schedule counts from its first start: earlier ticks are not missed. While two
//!   schedules are in use under one name, each replica warns of it.
//! * A run that lasts beyond the next tick makes that tick overlap, even if the run started late:
//!   with [`Overlap::Queue`] it still runs.
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

mod claims;
mod conflict;
pub(crate) mod context;
mod error;
mod event;
mod event_sink;
pub(crate) mod fleet;
mod handle;
pub(crate) mod job;
mod job_task;
mod options;
mod outcome_hook;
mod roster;
#[expect(clippy::module_inception, reason = "the file of the type that the module is about")]
pub(crate) mod scheduler;
mod shared;
mod shared_job;
mod status;
mod tasks;
mod tick;
mod trigger;
mod upkeep;
mod wall_timer;
mod work;

use redlock_core::policy;

pub use conflict::JobConflict;
pub(crate) use context::JobContext;
#[cfg(feature = "testing")]
pub(crate) use context::RunInfo;
pub use error::{StartError, UnknownJob};
pub use event::{JobEvent, JobEventKind, MissReason, SkipReason};
#[cfg(any(test, fuzzing))]
pub(crate) use fleet::fuzzing;
pub use fleet::{
    ControlError, JobCommand, JobControl, JobPause, JobRun, JobRunResult, JobStop, RequestedRun,
    StoredSchedule, UnusedJob,
};
pub use handle::{SchedulerHandle, ShutdownReport};
pub(crate) use job::Job;
pub use options::{Claim, Missed, Overlap};
pub use outcome_hook::JobOutcome;
#[allow(unused_imports, reason = "for links")]
pub(crate) use scheduler::Scheduler;
pub use status::{FleetRun, JobCounts, JobState, JobStatus, LastRun, Outcome, RunningJob};
pub use tick::{TickContext, TickError, TickOutcome, TickRequest};
pub use trigger::{Trigger, TriggerError};
pub use upkeep::Candidate;
pub use work::{JobError, JobResult, NotDone};
