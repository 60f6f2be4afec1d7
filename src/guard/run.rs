//! `LockRequest::run` and its future.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;

use super::{GuardError, Guarded, LockContext};
use crate::{
    error::LockError,
    lock::{Acquire, LockRequest},
};

impl LockRequest {
    /// Acquires the lock, runs `work` under it, and releases it.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock was lost while the work ran: the work was dropped, and its outcome
    /// is unknown. After every other error the work did not start.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, then releases the lock.
    ///
    /// # Panics
    ///
    /// If the work panics; the lock is then released.
    ///
    /// ```
    /// use tower_redlock::{LockError, Redlock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let redlock = Redlock::embedded();
    /// let token = redlock.lock("invoice:42").run(|cx| async move { cx.fencing_token() }).await?;
    /// assert!(token.get() > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<F, Fut>(self, work: F) -> Run<F, Fut>
    where
        F: FnOnce(LockContext) -> Fut,
        Fut: Future,
    {
        Run { state: RunState::Acquiring { acquire: self.acquire_for_work(), work: Some(work) } }
    }

    /// Like [`run`](Self::run), for work that can itself fail.
    ///
    /// # Errors
    ///
    /// [`GuardError::Lock`] as [`run`](Self::run) describes; [`GuardError::Work`] is the work's own.
    ///
    /// Cancel safety and panics are as for [`run`](Self::run).
    pub fn try_run<F, Fut, T, E>(self, work: F) -> TryRun<F, Fut>
    where
        F: FnOnce(LockContext) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        TryRun { run: self.run(work) }
    }
}

/// The future of [`LockRequest::run`].
///
/// # Panics
///
/// If polled again after it was ready, or if the work panics.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct Run<F, Fut> {
    #[pin]
    state: RunState<F, Fut>,
}

#[pin_project(project = RunStateProj)]
enum RunState<F, Fut> {
    Acquiring {
        #[pin]
        acquire: Acquire,
        work: Option<F>,
    },
    Running {
        #[pin]
        guarded: Guarded<Fut>,
    },
}

impl<F, Fut> Future for Run<F, Fut>
where
    F: FnOnce(LockContext) -> Fut,
    Fut: Future,
{
    type Output = Result<Fut::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                RunStateProj::Acquiring { acquire, work } => {
                    let lock = ready!(acquire.poll(cx))?;
                    let work = work.take().expect("the work is taken only here");
                    let guarded = Guarded::start(lock, work)?;
                    this.state.set(RunState::Running { guarded });
                }
                RunStateProj::Running { guarded } => {
                    return Poll::Ready(ready!(guarded.poll(cx)).map(|(output, _hold)| output));
                }
            }
        }
    }
}

impl<F, Fut> fmt::Debug for Run<F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").finish_non_exhaustive()
    }
}

/// The future of [`LockRequest::try_run`].
///
/// # Panics
///
/// If polled again after it was ready, or if the work panics.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct TryRun<F, Fut> {
    #[pin]
    run: Run<F, Fut>,
}

impl<F, Fut, T, E> Future for TryRun<F, Fut>
where
    F: FnOnce(LockContext) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    type Output = Result<T, GuardError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.project().run.poll(cx))?.map_err(GuardError::Work))
    }
}

impl<F, Fut> fmt::Debug for TryRun<F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryRun").finish_non_exhaustive()
    }
}
