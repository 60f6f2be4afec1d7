//! What a program knows of the tick that it runs, and how a request to run one ends.

use std::{ops::Deref, sync::Arc, time::SystemTime};

use super::super::{JobConflict, JobPause, JobStop};
use crate::{
    error::LockError,
    guard::LockContext,
    schedule::WallTime,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// What the work of a [`TickRequest`](super::TickRequest) knows. Also a [`LockContext`].
#[derive(Clone, Debug)]
pub struct TickContext {
    pub(super) lock: LockContext,
    pub(super) tick: WallTime,
    pub(super) attempt: u32,
    pub(super) is_given_back: Arc<AtomicBool>,
    pub(super) stop: Arc<Mutex<Option<JobStop>>>,
}

impl TickContext {
    /// Returns the tick that the run is for.
    pub fn tick(&self) -> SystemTime {
        self.tick.into()
    }

    /// Says that the work did not begin, for example as its program is missing: if it then returns an
    /// error, the claim is given back, so that this does not count as an attempt.
    pub fn give_back(&self) {
        self.is_given_back.store(true, Ordering::Relaxed);
    }

    /// Returns the request to [stop the run](crate::Redlock::stop_job), if there was one;
    /// [`stopping`](LockContext::stopping) has completed then.
    pub fn stop_request(&self) -> Option<JobStop> {
        crate::sync::lock(&self.stop).clone()
    }

    /// Returns the number of the attempt at the tick, from 1, over all hosts.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }
}

impl Deref for TickContext {
    type Target = LockContext;

    fn deref(&self) -> &LockContext {
        &self.lock
    }
}

/// How a [`TickRequest`](super::TickRequest) ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TickOutcome<T> {
    /// The work succeeded, and this is recorded.
    Ran(T),
    /// The work succeeded, but too few nodes recorded that. Others take the tick for one whose run was
    /// interrupted.
    RanUnrecorded(T, LockError),
    /// The tick has been run.
    #[non_exhaustive]
    AlreadyDone {
        /// The [`owner`](crate::RedlockBuilder::owner) that ran it, where that is known.
        by: Option<Arc<str>>,
        /// When its run ended, where that is known.
        ended: Option<SystemTime>,
    },
    /// A later tick of the job was begun before: this one is missed.
    #[non_exhaustive]
    Superseded {
        /// The later tick.
        tick: SystemTime,
        /// The owner that began it, where that is known.
        by: Option<Arc<str>>,
    },
    /// The tick has had its maximum number of attempts: those runs failed, or were interrupted.
    #[non_exhaustive]
    GivenUp {
        /// The owner that tried it last, where that is known.
        by: Option<Arc<str>>,
        /// Number of attempts.
        attempts: u32,
    },
    /// Another program has begun the tick, or a later one, under the name of this job: it has another schedule,
    /// or another [`work_id`](super::TickRequest::work_id). Nothing ran. The job's
    /// [history](crate::Redlock::job_history) has it, once for each tick.
    #[non_exhaustive]
    Conflict {
        /// The tick that the other program has begun.
        tick: SystemTime,
        /// What differs, and who began it.
        conflict: JobConflict,
    },
    /// The tick may have been run: a majority of the servers began without data after it, as new servers do,
    /// and servers that lost theirs. Later ticks are not concerned.
    Unknown,
    /// The job is paused on the whole fleet. The tick can be run after the pause.
    Paused(JobPause),
}
