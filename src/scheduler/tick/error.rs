//! Why a tick was not run to its end.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use super::super::JobStop;
use crate::{error::LockError, schedule::ScheduleError};

/// Why a tick was not run to its end.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TickError<E> {
    /// The work failed. The tick counts as not done.
    Work(E),
    /// The job's lock was not acquired, or was lost; or too few nodes answered under it. After
    /// [`LockError::Lost`] the outcome of the work is unknown, and the tick counts as not done.
    Lock(LockError),
    /// The run was [stopped on request](crate::Redlock::stop_job). The tick counts as done.
    Stopped(JobStop),
    /// The schedule can't be used. Nothing was sent.
    Schedule(ScheduleError),
    /// The schedule has no tick up to now. Nothing was sent.
    NoTick {
        /// The job.
        job: Arc<str>,
    },
    /// The tick lies in the future of the servers: this host's clock is wrong. Nothing ran.
    ClockAhead {
        /// How far the tick is ahead of the servers' clocks.
        by: Duration,
    },
}

impl<E: fmt::Display> fmt::Display for TickError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(error) => error.fmt(f),
            Self::Lock(error) => error.fmt(f),
            Self::Stopped(stop) => write!(f, "the run was {stop}"),
            Self::Schedule(error) => error.fmt(f),
            Self::NoTick { job } => write!(f, "the schedule of job {job:?} has no tick up to now"),
            Self::ClockAhead { by } => write!(
                f,
                "the tick is {by:.1?} ahead of the clocks of the servers: set the clock of this host right"
            ),
        }
    }
}

impl<E: Error + 'static> Error for TickError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Work(error) => error.source(),
            Self::Lock(error) => error.source(),
            Self::Schedule(error) => error.source(),
            Self::Stopped(_) | Self::NoTick { .. } | Self::ClockAhead { .. } => None,
        }
    }
}

impl<E> From<LockError> for TickError<E> {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}
