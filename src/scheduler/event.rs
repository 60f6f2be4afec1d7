use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::Outcome;
use crate::{FencingToken, error::LossCause, schedule::WallTime};

/// Something that happened to a job on this replica.
///
/// Other replicas tell of their own runs themselves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobEvent {
    /// The job.
    pub job: Arc<str>,
    /// The tick that it is about; for what concerns several, the latest.
    pub tick: WallTime,
    /// When it happened, by this replica's wall clock.
    pub at: SystemTime,
    /// What happened.
    pub kind: JobEventKind,
}

/// What happened to a job.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum JobEventKind {
    /// The tick is this replica's: a majority of nodes keeps its claim.
    Claimed {
        /// Which attempt at the tick this is, from 1.
        attempt: u32,
    },
    /// The tick was not run here, and why.
    Skipped(SkipReason),
    /// Ticks that were not started in time are given up.
    Missed {
        /// How many; 1,000 means at least as many.
        count: u64,
        /// The oldest of them.
        first: WallTime,
    },
    /// The work starts.
    Started {
        /// The run's fencing token.
        token: FencingToken,
        /// How long after its scheduled time.
        lateness: Duration,
    },
    /// The lock was renewed.
    Extended {
        /// For how long it is valid from now.
        remaining: Duration,
    },
    /// The work was asked to stop: the lock is about to end, or somebody wants the run to.
    Stopping,
    /// An attempt failed, and is repeated under the same lock.
    Retrying {
        /// The attempt that failed.
        attempt: u32,
        /// What it failed with.
        error: Arc<str>,
        /// The pause before the next.
        pause: Duration,
    },
    /// The work did what it had to do.
    Finished {
        /// From its start.
        took: Duration,
    },
    /// The work failed, and is not tried again.
    Failed {
        /// What the last attempt failed with.
        error: Arc<str>,
        /// From its start.
        took: Duration,
    },
    /// The work panicked.
    Panicked {
        /// The panic's message, if it is a text.
        message: Arc<str>,
        /// From its start.
        took: Duration,
    },
    /// The lock was lost, and the work was stopped; its outcome is unknown.
    Lost {
        /// Why.
        cause: LossCause,
        /// From its start.
        took: Duration,
    },
    /// The work was stopped at [`max_run`](super::Job::max_run).
    TimedOut {
        /// From its start.
        took: Duration,
    },
    /// The work was stopped: the scheduler shut down, leadership was lost, or the next tick came.
    Stopped {
        /// From its start.
        took: Duration,
    },
}

/// Why a tick was not run by this replica, now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It was started already: by this owner, where that is known.
    AlreadyStarted {
        /// Who, as it calls itself.
        by: Option<Arc<str>>,
    },
    /// The run before is still going.
    Overlap,
    /// Somebody else has the job's lock; it is looked at again.
    Held {
        /// Who, as it calls itself.
        by: Option<Arc<str>>,
    },
    /// It was asked for on a replica that [stands by](super::Scheduler::leader_only).
    NotLeading,
    /// The nodes could not be asked; it is tried again while the tick may still start.
    Unavailable {
        /// What was the matter.
        error: Arc<str>,
    },
}

impl JobEventKind {
    /// The event that tells of the end of a run.
    pub(super) fn of(outcome: &Outcome, took: Duration) -> Self {
        match outcome.clone() {
            Outcome::Finished => Self::Finished { took },
            Outcome::Failed { error } => Self::Failed { error, took },
            Outcome::Panicked { message } => Self::Panicked { message, took },
            Outcome::Lost { cause } => Self::Lost { cause, took },
            Outcome::TimedOut => Self::TimedOut { took },
            Outcome::Stopped => Self::Stopped { took },
        }
    }
}

/// One word for it, as in metrics.
pub(super) const fn label(reason: &SkipReason) -> &'static str {
    match reason {
        SkipReason::AlreadyStarted { .. } => "already_started",
        SkipReason::Overlap => "overlap",
        SkipReason::Held { .. } => "held",
        SkipReason::NotLeading => "not_leading",
        SkipReason::Unavailable { .. } => "unavailable",
    }
}
