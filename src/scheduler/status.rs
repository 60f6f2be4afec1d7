//! The public status of a job.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{JobControl, JobPause};
use crate::{FencingToken, error::LossCause};

/// The status of a job on this replica.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JobStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its schedule as a text: `every 5 min`, `every day at 03:00 (Europe/Berlin)`.
    pub schedule: Arc<str>,
    /// What is wrong with the job, although it was not stopped: its only tick had passed at the start, or
    /// there is a [conflict](super::JobConflict) with another replica. Usually `None`.
    pub finding: Option<Arc<str>>,
    /// Its current activity, or what it waits for.
    pub state: JobState,
    /// The next tick, as far as this replica knows. `None` while the job runs here or is paused, while
    /// another replica leads, and if there is none.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub next_tick: Option<SystemTime>,
    /// Whether it was paused on this replica alone, by
    /// [`pause_here`](super::SchedulerHandle::pause_here).
    pub paused_here: Option<JobPause>,
    /// Pauses and requested runs of the whole fleet, as last seen from here: at most some 5 s old while
    /// the servers answer. A pause whose time is over may still be shown.
    pub control: JobControl,
    /// The run that is under way here. Of a [parallel](crate::Job::parallel) job, the one that began first.
    pub running: Option<RunningJob>,
    /// The other runs that are under way here, of a [parallel](crate::Job::parallel) job, in the order of
    /// their starts.
    pub running_beside: Vec<RunningJob>,
    /// The last run that ended here.
    pub last: Option<LastRun>,
    /// The ticks that this replica last found to be missed, for another reason than a pause.
    pub last_missed: Option<LastMissed>,
    /// The latest run of the whole fleet, as last seen from here.
    pub fleet: Option<FleetRun>,
    /// Counts on this replica since the start.
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
    /// Its start.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub since: SystemTime,
    /// Delay of its start after its scheduled time.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub lateness: Duration,
    /// Its fencing token.
    pub token: FencingToken,
    /// Its slot, if the job is [parallel](crate::Job::parallel). Tokens compare within a slot.
    pub slot: Option<u32>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The error of the previous attempt.
    pub last_error: Option<Arc<str>>,
}

/// Identifies a run among those of one job on one replica: tokens of two slots may be equal.
pub(super) type RunKey = (Option<u32>, FencingToken);

impl RunningJob {
    pub(super) const fn key(&self) -> RunKey {
        (self.slot, self.token)
    }
}

impl JobStatus {
    /// Returns the runs that are under way here, in the order of their starts.
    pub fn runs(&self) -> impl Iterator<Item = &RunningJob> {
        self.running.iter().chain(&self.running_beside)
    }

    pub(super) fn run_mut(&mut self, key: RunKey) -> Option<&mut RunningJob> {
        self.running.iter_mut().chain(&mut self.running_beside).find(|run| run.key() == key)
    }

    pub(super) fn begin_run(&mut self, run: RunningJob) {
        match &mut self.running {
            none @ None => *none = Some(run),
            Some(_) => self.running_beside.push(run),
        }
    }

    /// Removes a run that has ended.
    pub(super) fn end_run(&mut self, key: RunKey) -> Option<RunningJob> {
        if let Some(at) = self.running_beside.iter().position(|run| run.key() == key) {
            return Some(self.running_beside.remove(at));
        }
        let run = self.running.take_if(|run| run.key() == key)?;
        if !self.running_beside.is_empty() {
            self.running = Some(self.running_beside.remove(0));
        }
        Some(run)
    }
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LastRun {
    /// Its tick.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub tick: SystemTime,
    /// Its start.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub started: SystemTime,
    /// Delay of its start after its scheduled time.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub lateness: Duration,
    /// Its duration.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub took: Duration,
    /// Its outcome.
    pub outcome: Outcome,
}

/// Ticks that were missed, as far as this replica knows: they are not run any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LastMissed {
    /// Number of the ticks.
    pub count: u64,
    /// The latest of them.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub tick: SystemTime,
    /// Time at which this replica found it out: an outage may end long after the ticks.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub found: SystemTime,
    /// The reason, as a text.
    pub why: Arc<str>,
}

/// The latest run of the whole fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FleetRun {
    /// The newest tick that was started; `None` before the first.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub tick: Option<SystemTime>,
    /// Its start, by the clock of the replica that ran it.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub since: SystemTime,
    /// Its end, by the same clock; `None` while it runs, and after a crash.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub ended: Option<SystemTime>,
    /// The [`owner`](crate::RedlockBuilder::owner) that ran it.
    pub owner: Option<Arc<str>>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Outcome {
    /// The work succeeded.
    Finished,
    /// The work failed, retries included.
    Failed {
        /// The error of the last attempt.
        error: Arc<str>,
    },
    /// The work panicked.
    Panicked {
        /// The panic's message, if it is a text.
        message: Arc<str>,
    },
    /// The lock was lost; what the work did until then is unknown.
    Lost {
        /// The cause.
        #[cfg_attr(feature = "config", serde(serialize_with = "as_text"))]
        cause: LossCause,
    },
    /// It took longer than [`max_run`](super::Job::max_run).
    TimedOut {
        /// The error of the last failed attempt, if any.
        error: Option<Arc<str>>,
    },
    /// It was stopped, or stopped on request: the scheduler shut down, leadership was lost, the
    /// next tick came, or the lock was about to end.
    Stopped,
    /// The work is [not done](super::NotDone), and is run again.
    NotDone {
        /// Its reason.
        reason: Arc<str>,
    },
}

/// The counts of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct JobCounts {
    /// Ticks that this replica claimed, and runs that were triggered here.
    pub started: u64,
    /// Runs that succeeded.
    pub finished: u64,
    /// Runs that failed, retries included.
    pub failed: u64,
    /// Runs that panicked.
    pub panicked: u64,
    /// Runs that lost their lock.
    pub lost: u64,
    /// Runs that took longer than [`max_run`](super::Job::max_run).
    pub timed_out: u64,
    /// Runs that were stopped.
    pub stopped: u64,
    /// Runs that asked to be run again.
    pub not_done: u64,
    /// Retries within runs.
    pub retries: u64,
    /// Ticks that neither this replica nor, as far as it knows, another one has run: the previous run
    /// had not ended, the lock was held, or too few nodes answered.
    pub skipped: u64,
    /// Ticks that this replica found to be given up, or interrupted.
    pub missed: u64,
}

#[cfg(feature = "config")]
fn as_text<S: serde::Serializer>(cause: &LossCause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cause)
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

/// The activity of a job on this replica, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum JobState {
    /// The runs of the fleet are not known yet.
    Starting,
    /// Waits for its next tick.
    WaitingForTick {
        /// The tick, without jitter.
        #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
        at: SystemTime,
    },
    /// Its schedule has no further tick.
    NoMoreTicks,
    /// Too few nodes answer or allow the run; the job tries again.
    WaitingForNodes {
        /// The answer of each node: down, in probation, full, and the like.
        error: Arc<str>,
    },
    /// Another owner holds the job's lock, or a slot of a [parallel](crate::Job::parallel) job: it runs the
    /// tick, or crashed during the run.
    HeldBy {
        /// The owner, if known.
        owner: Option<Arc<str>>,
    },
    /// It is due, but [`max_concurrent_runs`](super::Scheduler::max_concurrent_runs) other runs, or
    /// [`parallel`](crate::Job::parallel) runs of its own, are under way here.
    WaitingForSlot,
    /// Its work runs: see [`JobStatus::running`](super::JobStatus::running).
    Running,
    /// Its work has ended, and the lock is still held: the end of the run is being stored, or
    /// [`min_hold`](super::Job::min_hold) is not over.
    Finishing,
    /// It pauses after a failure, then continues.
    BackingOff {
        /// The failure.
        reason: Arc<str>,
    },
    /// It was paused, [on the whole fleet](super::SchedulerHandle::pause) or
    /// [here](super::SchedulerHandle::pause_here).
    Paused {
        /// Name of the person or program that paused it; this replica's owner name for a pause here.
        by: Arc<str>,
        /// The reason that was given.
        why: Option<Arc<str>>,
        /// The end of the pause; `None` until it is resumed.
        #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
        until: Option<SystemTime>,
    },
    /// Another replica [leads](super::Scheduler::leader_only).
    StandingBy {
        /// The leader, if known.
        leader: Option<Arc<str>>,
    },
    /// It does not run on this replica any more.
    Ended {
        /// The reason.
        reason: Arc<str>,
    },
}
