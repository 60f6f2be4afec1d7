//! The errors of commands for a fleet's job.

use std::{error::Error, fmt, sync::Arc};

use super::super::UnknownJob;
use crate::error::{LockError, Refusals, Votes};

/// Why a command for a job of a fleet failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ControlError {
    /// The scheduler has no such job. Nothing was sent.
    UnknownJob(UnknownJob),
    /// The name, the reason or the time can't be used. Nothing was sent.
    Invalid {
        /// The job.
        job: Arc<str>,
        /// What is wrong.
        reason: Arc<str>,
    },
    /// The maximum number of runs is requested already. Nothing was changed.
    TooManyRequests {
        /// The job.
        job: Arc<str>,
        /// Their number.
        requested: usize,
    },
    /// The job has no run that could be stopped. Nothing was changed.
    NotRunning {
        /// The job.
        job: Arc<str>,
    },
    /// Not every node has confirmed that it keeps nothing of the job any more. Run it again once these
    /// answer.
    Incomplete {
        /// The job.
        job: Arc<str>,
        /// The answer of each node.
        votes: Votes,
    },
    /// The nodes gave no lock, or too few of them answered. After [`LockError::NoQuorum`], the command
    /// may be in force or not: repeat it, or read [`job_control`](crate::Redlock::job_control).
    Nodes {
        /// The job.
        job: Arc<str>,
        /// The error of the nodes.
        error: Box<LockError>,
    },
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownJob(error) => error.fmt(f),
            Self::Invalid { job, reason } => write!(f, "job {job:?}: {reason}"),
            Self::TooManyRequests { job, requested } => {
                write!(
                    f,
                    "{requested} runs of job {job:?} are requested already, and none has begun"
                )
            }
            Self::NotRunning { job } => write!(f, "job {job:?} is not running"),
            Self::Incomplete { job, votes } => {
                write!(
                    f,
                    "job {job:?}: not all nodes have forgotten it{}; run it again once they answer",
                    Refusals::among(votes)
                )
            }
            Self::Nodes { job, error } if matches!(**error, LockError::NoQuorum { .. }) => {
                write!(f, "job {job:?}: {error}; the command may be in force or not: repeat it")
            }
            Self::Nodes { job, error } => write!(f, "job {job:?}: {error}"),
        }
    }
}

impl Error for ControlError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Nodes { error, .. } => Some(&**error),
            _ => None,
        }
    }
}

impl From<UnknownJob> for ControlError {
    fn from(error: UnknownJob) -> Self {
        Self::UnknownJob(error)
    }
}
