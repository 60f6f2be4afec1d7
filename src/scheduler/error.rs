//! Errors of a start, of a trigger, and of a name that no job has.

use std::{error::Error, fmt, sync::Arc};

use crate::{error::LockError, protocol::Op, resource::ResourceError, schedule::ScheduleError};

/// Why a scheduler was not started, or a job not added or replaced. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// Two jobs have the same name.
    DuplicateJob {
        /// The name.
        job: Arc<str>,
    },
    /// A job's name can't be one of a lock.
    InvalidName {
        /// The name.
        job: Arc<str>,
        /// Why.
        error: ResourceError,
    },
    /// The name of the leadership can't be used.
    InvalidLeader {
        /// The name.
        name: Arc<str>,
        /// Why.
        error: ResourceError,
    },
    /// The leader's options are not valid, or it can't be run.
    LeaderOptions {
        /// The name of the leadership.
        name: Arc<str>,
        /// What is wrong.
        reason: Arc<str>,
    },
    /// The leader was made by another manager than the scheduler's.
    ForeignLeader {
        /// The name of the leadership.
        name: Arc<str>,
    },
    /// A job's schedule can't be used.
    Schedule {
        /// The job.
        job: Arc<str>,
        /// Why.
        error: ScheduleError,
    },
    /// A job's options do not fit together, or not with the manager's.
    InvalidJob {
        /// The job.
        job: Arc<str>,
        /// What is wrong.
        reason: Arc<str>,
    },
    /// The scheduler has no job of this name that could be replaced.
    UnknownJob {
        /// The name.
        job: Arc<str>,
    },
    /// The scheduler is being shut down.
    ShuttingDown,
    /// There are more jobs than the nodes keep claims of.
    TooManyJobs {
        /// How many.
        jobs: usize,
    },
    /// [`max_concurrent_runs`](super::Scheduler::max_concurrent_runs) is zero: nothing could run.
    NoRuns,
    /// The manager was built with `fencing(false)`: claims of ticks are ordered by their tokens.
    NoFencing,
    /// It was started outside a tokio runtime, and has no spawner of its own.
    NoRuntime,
    /// The manager is shut down.
    Closed,
}

impl StartError {
    pub(super) fn invalid(job: &Arc<str>, reason: impl Into<Arc<str>>) -> Self {
        Self::InvalidJob { job: Arc::clone(job), reason: reason.into() }
    }

    /// The error for a job whose lock request the manager refuses.
    pub(super) fn lock(job: &Arc<str>, error: LockError) -> Self {
        match error {
            LockError::InvalidRequest(reason) => Self::invalid(job, reason),
            LockError::Closed => Self::Closed,
            other => Self::invalid(job, other.to_string()),
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateJob { job } => write!(f, "there are two jobs named {job:?}"),
            Self::InvalidName { job, error } => {
                write!(f, "the job's name {job:?} can't be used: {error}")
            }
            Self::InvalidLeader { name, error } => {
                write!(f, "the leader's name {name:?} can't be used: {error}")
            }
            Self::LeaderOptions { name, reason } => write!(f, "the leader {name:?}: {reason}"),
            Self::ForeignLeader { name } => write!(
                f,
                "the leader {name:?} was made by another manager: make it by the one that the scheduler has"
            ),
            Self::Schedule { job, error } => write!(f, "the schedule of job {job:?}: {error}"),
            Self::InvalidJob { job, reason } => write!(f, "job {job:?}: {reason}"),
            Self::UnknownJob { job } => write!(f, "the scheduler has no job named {job:?}"),
            Self::ShuttingDown => f.write_str("the scheduler is being shut down"),
            Self::TooManyJobs { jobs } => {
                write!(f, "{jobs} jobs are more than the {} of one namespace", Op::MAX_JOBS)
            }
            Self::NoRuns => f.write_str("max_concurrent_runs is zero: nothing could run"),
            Self::NoFencing => f.write_str(
                "the scheduler needs fencing tokens: build the manager without fencing(false)",
            ),
            Self::NoRuntime => f.write_str(
                "no tokio runtime: start the scheduler inside of one, or give it a spawner",
            ),
            Self::Closed => f.write_str("the lock manager is shut down"),
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::InvalidName { error, .. } | Self::InvalidLeader { error, .. } => Some(error),
            Self::Schedule { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// There is no job of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownJob {
    pub(super) name: Arc<str>,
}

impl UnknownJob {
    /// Returns the requested name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for UnknownJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the scheduler has no job named {:?}", self.name)
    }
}

impl Error for UnknownJob {}

/// Why a trigger was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TriggerError {
    /// There is no such job.
    UnknownJob(UnknownJob),
    /// The job does not run any more on this replica.
    Ended {
        /// The job.
        job: Arc<str>,
        /// Why it has ended.
        reason: Arc<str>,
    },
    /// The scheduler is being shut down.
    ShuttingDown,
    /// Too many triggered runs of the job are pending.
    TooMany {
        /// The job.
        job: Arc<str>,
        /// How many.
        pending: usize,
    },
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownJob(error) => error.fmt(f),
            Self::Ended { job, reason } => write!(f, "job {job:?} has ended: {reason}"),
            Self::ShuttingDown => f.write_str("the scheduler is being shut down"),
            Self::TooMany { job, pending } => {
                write!(f, "{pending} triggered runs of job {job:?} are pending already")
            }
        }
    }
}

impl Error for TriggerError {}

impl From<UnknownJob> for TriggerError {
    fn from(error: UnknownJob) -> Self {
        Self::UnknownJob(error)
    }
}
