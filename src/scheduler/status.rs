//! The public status of a job.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{FencingToken, error::LossCause};

/// The status of a job on this replica.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JobStatus {
    /// Its name.
    pub name: Arc<str>,
    /// When it is due, in words: `every 5 min`, `every day at 03:00 (Europe/Berlin)`.
    pub schedule: Arc<str>,
    /// Why the job will not run though nobody stopped it: its only moment had passed at the start,
    /// say. `None` as a rule.
    pub finding: Option<Arc<str>>,
    /// What it is doing, and what it waits for.
    pub state: JobState,
    /// The next tick, as far as this replica knows: `None` while it runs here or is paused,
    /// where another replica leads, and where there is none.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub next_tick: Option<SystemTime>,
    /// Whether it was [paused](super::SchedulerHandle::pause) on this replica.
    pub paused: bool,
    /// The run that this replica holds the job's lock for.
    pub running: Option<RunningJob>,
    /// The last run that ended here.
    pub last: Option<LastRun>,
    /// The latest run of the whole fleet, as last seen from here.
    pub fleet: Option<FleetRun>,
    /// What was counted on this replica since the start.
    pub counts: JobCounts,
}

/// A current run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RunningJob {
    /// Its tick.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub tick: SystemTime,
    /// Since when.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub since: SystemTime,
    /// Under which token.
    pub token: FencingToken,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// What the attempt before failed with.
    pub last_error: Option<Arc<str>>,
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LastRun {
    /// Its tick.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub tick: SystemTime,
    /// When it started.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub started: SystemTime,
    /// How long it took.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub took: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

/// The latest run of the whole fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FleetRun {
    /// The newest tick that was started; `None` before the first.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub tick: Option<SystemTime>,
    /// Since when, by the clock of the replica that ran it.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub since: SystemTime,
    /// When it ended, by the same clock; `None` while it runs, and after a crash.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub ended: Option<SystemTime>,
    /// Which replica, as it calls itself.
    pub owner: Option<Arc<str>>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Outcome {
    /// The work did what it had to do.
    Finished,
    /// The work failed, retries included.
    Failed {
        /// What the last attempt failed with.
        error: Arc<str>,
    },
    /// The work panicked.
    Panicked {
        /// The panic's message, if it is a text.
        message: Arc<str>,
    },
    /// The lock was lost; what the work did until then is unknown.
    Lost {
        /// Why.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        cause: LossCause,
    },
    /// It took longer than [`max_run`](super::Job::max_run).
    TimedOut {
        /// What the last attempt that failed failed with, if one did.
        error: Option<Arc<str>>,
    },
    /// It was stopped, or stopped on request: the scheduler shut down, leadership was lost, the
    /// next tick came, or the lock was about to end.
    Stopped,
    /// It has [not done](super::NotDone) all that it had to, and is run again.
    NotDone {
        /// What it said.
        reason: Arc<str>,
    },
}

/// What was counted of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JobCounts {
    /// Ticks that this replica claimed, and runs that were triggered here.
    pub started: u64,
    /// Runs that did what they had to do.
    pub finished: u64,
    /// Runs that failed, retries included.
    pub failed: u64,
    /// Runs that panicked.
    pub panicked: u64,
    /// Runs that lost their lock.
    pub lost: u64,
    /// Runs that took longer than they may.
    pub timed_out: u64,
    /// Runs that were stopped.
    pub stopped: u64,
    /// Runs that asked to be run again.
    pub not_done: u64,
    /// Retries within runs.
    pub retries: u64,
    /// Ticks that this replica did not run, and no other that it knows of: the run before was
    /// going, the lock was taken, or too few nodes answered.
    pub skipped: u64,
    /// Ticks that were given up or whose run was broken off, as far as this replica was the one to
    /// find it out.
    pub missed: u64,
}

#[cfg(feature = "config")]
fn as_text<S: serde::Serializer>(cause: &LossCause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cause)
}

impl Outcome {
    /// The label in metrics.
    pub(super) const fn label(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Failed { .. } => "failed",
            Self::Panicked { .. } => "panicked",
            Self::Lost { .. } => "lost",
            Self::TimedOut { .. } => "timed_out",
            Self::Stopped => "stopped",
            Self::NotDone { .. } => "not_done",
        }
    }
}

impl JobCounts {
    pub(super) const fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Finished => self.finished += 1,
            Outcome::Failed { .. } => self.failed += 1,
            Outcome::Panicked { .. } => self.panicked += 1,
            Outcome::Lost { .. } => self.lost += 1,
            Outcome::TimedOut { .. } => self.timed_out += 1,
            Outcome::Stopped => self.stopped += 1,
            Outcome::NotDone { .. } => self.not_done += 1,
        }
    }
}

/// What a job is doing on this replica, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum JobState {
    /// The fleet's runs are not read yet.
    Starting,
    /// Waits for its next tick.
    WaitingForTick {
        /// When that is due, jitter not included.
        #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
        at: SystemTime,
    },
    /// Its schedule has no further tick.
    NoMoreTicks,
    /// Too few nodes answer, or let it run: it is tried again.
    WaitingForNodes {
        /// What each node said: down, in probation, full, and the like.
        error: Arc<str>,
    },
    /// Another owner holds the job's lock and runs the tick, or crashed while it did.
    HeldBy {
        /// Who, as it calls itself, if that is known.
        owner: Option<Arc<str>>,
    },
    /// It is due, and as many jobs run as
    /// [`max_concurrent_runs`](super::Scheduler::max_concurrent_runs) allows.
    WaitingForSlot,
    /// Its work runs: see [`JobStatus::running`](super::JobStatus::running).
    Running,
    /// Its work has ended, and the lock is still kept: the end of the run is being stored, or
    /// [`min_hold`](super::Job::min_hold) is not over.
    Finishing,
    /// It pauses after a failure, then continues.
    BackingOff {
        /// After what.
        reason: Arc<str>,
    },
    /// It was [paused](super::SchedulerHandle::pause).
    Paused,
    /// Another replica [leads](super::Scheduler::leader_only).
    StandingBy {
        /// Who, as it calls itself, if that is known.
        leader: Option<Arc<str>>,
    },
    /// It runs no more on this replica.
    Ended {
        /// Why.
        reason: Arc<str>,
    },
}
