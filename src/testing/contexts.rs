//! The contexts of jobs and leaders, without a scheduler or an election.

use std::{
    fmt,
    future::IntoFuture,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{ManualClock, Nodes};
use crate::{
    guard::LockContext,
    leader::Term,
    lock::Lock,
    resource::{Resource, ResourceError},
    schedule::WallTime,
    scheduler::{JobContext, RunInfo},
    sync::Mutex,
    time::Clock as _,
};

/// Creates a [`JobContext`] for testing a job's function alone: the first attempt of a punctual run
/// of the job `test`, with a tick at the clock's current time, under its own lock.
///
/// ```
/// use tower_redlock::{JobContext, testing};
///
/// async fn report(cx: JobContext) -> Result<u32, &'static str> {
///     for page in 0.. {
///         cx.ensure_valid().map_err(|_| "lost")?;
///         if page == 7 || cx.attempt() > 2 {
///             return Ok(page);
///         }
///     }
///     Err("no last page")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let first = testing::job_context().job("report").build();
/// assert_eq!(report(first.context()).await, Ok(7));
///
/// let third = testing::job_context().job("report").attempt(3).build();
/// assert_eq!(report(third.context()).await, Ok(0));
///
/// first.lose();
/// assert_eq!(report(first.context()).await, Err("lost"));
/// # }
/// ```
pub fn job_context() -> JobContextBuilder {
    JobContextBuilder {
        clock: None,
        job: "test".into(),
        tick: None,
        lateness: Duration::ZERO,
        attempt: 1,
        is_triggered: false,
    }
}

/// Creates a [`Term`] for testing a leader's work alone, begun at the first moment of its own
/// clock.
///
/// ```
/// use tower_redlock::{Term, testing};
///
/// async fn lead(term: Term) -> &'static str {
///     term.stopping().await;
///     "handed over"
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let term = testing::term();
/// term.ask_to_stop();
/// assert_eq!(lead(term.context()).await, "handed over");
/// # }
/// ```
///
/// # Panics
///
/// Never, unless a task of the clock does.
pub fn term() -> UnderLock<Term> {
    let clock = ManualClock::new();
    let started = SystemTime::UNIX_EPOCH + clock.wall();
    UnderLock::new(&clock, Resource::of_leader("test"), |lock| Term::new(lock, started))
}

/// A builder of a job's context. Created by [`job_context`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct JobContextBuilder {
    clock: Option<ManualClock>,
    job: String,
    tick: Option<WallTime>,
    lateness: Duration,
    attempt: u32,
    is_triggered: bool,
}

impl JobContextBuilder {
    /// Sets the clock of the lock. Default: a new clock that does not move.
    pub fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Sets the job's name.
    pub fn job(mut self, name: impl Into<String>) -> Self {
        self.job = name.into();
        self
    }

    /// Sets the tick.
    pub fn tick(mut self, tick: impl Into<WallTime>) -> Self {
        self.tick = Some(tick.into());
        self
    }

    /// Sets the delay of the run after its tick.
    pub fn lateness(mut self, lateness: Duration) -> Self {
        self.lateness = lateness;
        self
    }

    /// Sets the number of the attempt, from 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Makes it a run that was triggered by hand.
    pub fn triggered(mut self) -> Self {
        self.is_triggered = true;
        self
    }

    /// Acquires the lock.
    ///
    /// # Panics
    ///
    /// If the name is not valid for a job.
    pub fn build(self) -> UnderLock<JobContext> {
        let clock = self.clock.unwrap_or_default();
        let now = WallTime::since_epoch(clock.wall());
        let tick = self.tick.unwrap_or(now);
        let info = RunInfo {
            job: self.job.as_str().into(),
            tick,
            scheduled: tick,
            lateness: self.lateness,
            decided: now,
            trigger: self.is_triggered.then_some(1),
        };
        UnderLock::new(&clock, Resource::of_job(&self.job), |lock| {
            JobContext::new(lock, Arc::new(info), self.attempt)
        })
    }
}

/// A context and its lock, which is released on drop.
pub struct UnderLock<C> {
    context: C,
    inner: LockContext,
    lock: Mutex<Option<Lock>>,
}

impl<C> UnderLock<C> {
    fn new(
        clock: &ManualClock,
        resource: Result<Resource, ResourceError>,
        make: impl FnOnce(LockContext) -> C,
    ) -> Self {
        let redlock = Nodes::new(1, clock).replica("test").redlock();
        let mut acquired = clock.spawn(redlock.lock_own(resource).into_future());
        clock.settle();
        let acquired =
            acquired.take().expect("no other client wants the lock, and the node answers");
        let lock = acquired.unwrap_or_else(|error| panic!("{error}"));
        let inner = lock.context();
        Self { context: make(inner.clone()), inner, lock: Mutex::new(Some(lock)) }
    }

    /// Completes the work's [`stopping`](LockContext::stopping), as a shutdown does.
    pub fn ask_to_stop(&self) {
        self.inner.ask_to_stop();
    }

    /// Ends the lock: [`ensure_valid`](LockContext::ensure_valid) fails from now on, with
    /// [`LossCause::Released`](crate::error::LossCause::Released), and
    /// [`stopping`](LockContext::stopping) completes.
    pub fn lose(&self) {
        let lock = crate::sync::lock(&self.lock).take();
        drop(lock);
    }
}

impl<C: Clone> UnderLock<C> {
    /// Returns the context, for the work.
    pub fn context(&self) -> C {
        self.context.clone()
    }
}

impl<C: fmt::Debug> fmt::Debug for UnderLock<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnderLock").field("context", &self.context).finish_non_exhaustive()
    }
}
