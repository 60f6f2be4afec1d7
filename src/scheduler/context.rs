//! The context of a run: its lock and its tick.

use std::{
    ops::Deref,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{guard::LockContext, schedule::WallTime};

/// The context of a run of a job: the lock that it runs under, and its tick.
///
/// It is a [`LockContext`]: [`fencing_token`](LockContext::fencing_token),
/// [`ensure_valid`](LockContext::ensure_valid) and [`stopping`](LockContext::stopping) are its methods.
/// Here, `stopping` also completes when the scheduler shuts down, when another replica leads, and
/// when [`Overlap::Stop`](super::Overlap::Stop) stops the run for the next tick.
#[derive(Clone, Debug)]
pub struct JobContext {
    lock: LockContext,
    run: Arc<RunInfo>,
    attempt: u32,
}

/// The part of the context that all attempts of a run have in common.
#[derive(Debug)]
pub(crate) struct RunInfo {
    pub(crate) job: Arc<str>,
    pub(crate) tick: WallTime,
    pub(crate) scheduled: WallTime,
    pub(crate) lateness: Duration,
    /// The time at which the policy decided that it is due.
    pub(crate) decided: WallTime,
    /// The number of the trigger or request, if it was triggered.
    pub(crate) trigger: Option<u64>,
}

impl JobContext {
    pub(crate) fn new(lock: LockContext, run: Arc<RunInfo>, attempt: u32) -> Self {
        Self { lock, run, attempt }
    }

    /// The job's name.
    pub fn job(&self) -> &str {
        &self.run.job
    }

    /// The tick: the moment that its schedule names, the same on every replica. A key for effects
    /// that must happen once a tick. For a run that was [triggered](Self::is_triggered): when that was.
    pub fn tick(&self) -> WallTime {
        self.run.tick
    }

    /// When the run was to start: the tick and its jitter.
    pub fn scheduled_at(&self) -> SystemTime {
        self.run.scheduled.into()
    }

    /// How long after that it started, by this replica's wall clock.
    pub fn lateness(&self) -> Duration {
        self.run.lateness
    }

    /// Which attempt at the tick this is, from 1: retries count, and so do runs of other replicas
    /// that were interrupted, where the job [claims at the end](super::Claim::AtEnd).
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Records a heartbeat of the work; from any task or thread. Needed if
    /// [`heartbeat_within`](super::Job::heartbeat_within) is set; no effect otherwise.
    pub fn heartbeat(&self) {
        self.lock.heartbeat();
    }

    /// Whether this run was triggered, apart from the schedule.
    pub fn is_triggered(&self) -> bool {
        self.run.trigger.is_some()
    }
}

impl Deref for JobContext {
    type Target = LockContext;

    fn deref(&self) -> &LockContext {
        &self.lock
    }
}
