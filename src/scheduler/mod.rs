//! Periodic jobs: each tick is run by one replica of the fleet.
//!
//! | part | where |
//! |---|---|
//! | a job: its name, schedule, work and options | [`Job`] |
//! | starting jobs, and stopping them | [`Scheduler`], [`SchedulerHandle`] |
//! | one replica that runs all jobs | [`Scheduler::leader_only`], [`Candidate`] |
//! | the context of a run | [`JobContext`] |
//! | options for missed, overlapping and interrupted runs | [`Missed`], [`Overlap`], [`Claim`] |
//! | runs beside each other | [`Job::parallel`](crate::Job::parallel) |
//! | work that must run again | [`NotDone`] |
//! | runs on demand | [`Trigger`], [`RequestedRun`] |
//! | pauses and requests of the whole fleet | [`JobCommand`], [`JobControl`] |
//! | the latest runs of the whole fleet | [`JobRun`] |
//! | one tick, without a scheduler | [`TickRequest`] |
//! | conflicts between replicas about a job | [`JobConflict`] |
//! | how runs and ticks ended, for people | [`Scheduler::on_outcome`], [`JobOutcome`] |
//! | events and the status of a job | [`JobEvent`], [`JobStatus`], [`JobState`] |
//! | what a job does next, without I/O or a clock | `redlock_core::tick_policy` |
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
//! * A changed schedule counts from the first tick of the former one that was neither claimed nor reported; if there
//!   is none, from its own latest tick. While two schedules are in use under one name, each replica warns of it.
//! * A run that lasts beyond the next tick makes that tick overlap, even if the run started late:
//!   with [`Overlap::Queue`] it still runs.
//!
//! # How a job runs (R12)
//!
//! A run of a job is a call of a `tower::Service` under the same guard as a request. Each replica has
//! one task for each job with this loop: ask the policy what is due, wait for it, acquire the job's
//! lock, read what the fleet has run, claim the tick, run, store the end, release the lock. The
//! policy is called while idle, and again under the lock with the answers of a majority.
//!
//! * **Waiting.** One task waits for the wall clock of the nodes on behalf of all jobs. It reads that
//!   clock at least once a second, because it may be set; while fewer than a quorum of nodes are
//!   connected, the monotonic clock advances it. At startup, one operation for 500 jobs reads what
//!   the nodes store. While another replica runs a job, a replica asks again when the key it met
//!   would expire, not earlier: a runner continues with the schedule when its run ends, so only its
//!   crash leaves work to others. If the options leave work after the run (a queued or missed tick, a
//!   run that must be repeated), its release wakes the waiting replicas, because the runner may be
//!   shutting down. They wait 50 to 250 ms for it, and then read the nodes before they request the
//!   lock.
//! * **Slots.** With `max_concurrent_runs`, a run waits for a slot *before* it requests the lock:
//!   another replica may run it meanwhile, and no lock is renewed for nothing.
//! * **Parallel jobs.** With [`Job::parallel`](crate::Job::parallel), a tick is claimed under the job's
//!   lock, and then runs under a slot of the job's name, in a task of its own; the job's lock is released as
//!   soon as the run has begun. All claims thus have tokens of one lock. The tokens of slots would not do:
//!   they do not compare, and two slots may have equal ones, so two replicas could claim one tick. An open
//!   entry in the history shows each run; its end is stored there, and in the claim while its tick is the
//!   latest, under the job's lock again, before the slot is released. The replica that claims a tick
//!   reads who holds slots: an open entry whose owner holds none was interrupted.
//! * **Control.** Every 4 to 5 s a replica reads the control of all its jobs. While the fleet has
//!   paused a job, its task reads the control at each tick, without a lock.
//! * **Missed ticks.** Before they are reported, the replica reads the nodes, as another replica may
//!   have run them. While too few nodes answer, that is reported at WARN, and the replica reads them
//!   again every 2.5 to 5 s.
//! * **Ends.** An end that too few nodes accepted while the lock was held is stored once they answer,
//!   under the same token: a replica that prepared a claim meanwhile has it refused, and if the end
//!   is refused, its replica stores it under a lock of its own. A replica that knows of an end counts
//!   the run as ended whatever nodes report later. The ends of runs elsewhere are read once a minute,
//!   then with increasing intervals, up to 10 min; one operation for 500 jobs.
//! * **Hangs.** The job's task polls the work, and wakes itself every quarter of `stall_limit`. The
//!   count of polls therefore stops only if a poll or the runtime hangs, and then the background
//!   thread stops the renewal. The same applies after the work, while the end is stored and the lock
//!   is held. Heartbeats are not expected between attempts, nor after the end of the work; polls are
//!   not expected while a blocking job runs on its thread.
//! * **Panics.** Each iteration of the loop is guarded, as schedules, subscribers and the drop of an
//!   error are foreign code. After a panic the state is restored, and the loop continues after a
//!   pause.
//!
//! A claim names the schedule by which it was made: a fingerprint (a hash of period and offset,
//! delay, moment or expression with its zone; of a custom rule its name; not of the jitter), since
//! when the job has it, and which replica introduced it. All jobs are registered so at their first
//! start. Ticks up to that moment, the *base*, do not belong to the job. A replica that finds another
//! fingerprint at its start has a changed schedule: its base is that moment, and it stores that once,
//! within 5 s or with its first claim, with an INFO. If it finds another one after its own was
//! stored, both are in use: it stores its own with its claims and keeps its base, and each side warns
//! of the other at first sight and once an hour. A restart or a rolling upgrade moves no base. A claim without a fingerprint (of an earlier version)
//! is not a change. The claim also has the text that the fingerprint is made of, and the version of
//! the author's time zone database, if the ticks depend on it: two versions are reported as two
//! schedules are, but run each other's ticks as their own.
//!
//! Where one replica leads for all jobs, it stores their names under the token of its term, as a
//! document on a register of the leader's name. A replica that stands by reads it once it has seen
//! that leader for a minute, and every 10 min, and reports its own jobs that the leader does not
//! have. A list that is too long for a document is stored as far as it fits, in the order of the
//! names, and covers no later ones.
//!
//! Claims: `docs/decisions/005-claims-apart-from-locks.md`.
//!
//! # Invariants
//!
//! * A run starts only after a quorum accepted its claim, under the token of the job's lock.
//! * A requested run is removed from the control, under both locks, before it starts.
//! * Two runs of a job never overlap, and of a parallel job there are at most as many at a time as it has
//!   slots.
//! * The lock of a run, or its slot, is released after the end of the run is stored or handed to the task
//!   that stores it later.
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
pub(crate) mod handle;
pub(crate) mod job;
mod job_task;
mod options;
mod outcome_hook;
mod pending_trigger;
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

use redlock_core::tick_policy;

pub use crate::callback::CallbackOutput;
pub use conflict::JobConflict;
pub(crate) use context::JobContext;
#[cfg(feature = "testing")]
pub(crate) use context::RunInfo;
pub use error::{StartError, TriggerError, UnknownJob};
pub use event::{JobEvent, JobEventKind, MissReason, SkipReason};
#[cfg(any(test, fuzzing))]
pub(crate) use fleet::fuzzing;
pub use fleet::{
    ControlError, JobCommand, JobControl, JobPause, JobRun, JobRunResult, JobStop, RequestedRun,
    StoredSchedule, UnusedJob,
};
pub(crate) use handle::SchedulerHandle;
pub use handle::ShutdownReport;
pub(crate) use job::Job;
pub use options::{Claim, Missed, Overlap};
pub use outcome_hook::JobOutcome;
#[allow(unused_imports, reason = "for links")]
pub(crate) use scheduler::Scheduler;
pub use status::{
    FleetRun, JobCounts, JobState, JobStatus, LastMissed, LastRun, Outcome, RunningJob,
};
pub use tick::{TickContext, TickError, TickOutcome, TickRequest};
pub use trigger::Trigger;
pub use upkeep::Candidate;
pub use work::{IntoJobResult, JobError, NotDone};
