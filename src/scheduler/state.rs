//! What a job is doing on this replica.

use std::{sync::Arc, time::SystemTime};

/// What a job is doing on this replica, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum JobState {
    /// The nodes were not asked yet what the fleet has run.
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
    /// Another owner holds the job's lock; that one runs the tick, or did until it crashed.
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
    /// It pauses after a failure, and goes on by itself.
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
