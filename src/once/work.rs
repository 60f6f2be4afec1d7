//! What a once request runs: the check, the work, and the rule that says whether the work is done.

use std::{
    future::{Future, Pending},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project::pin_project;

use super::record::StartedFlag;
use crate::guard::LockContext;

/// Work that starts under the lock of its key. Implemented by closures that take a [`LockContext`]
/// and return a future of a `Result`.
pub trait Work {
    /// The running work.
    type Future: Future<Output = Result<Self::Success, Self::Failure>>;
    /// The output of the work.
    type Success;
    /// The error of the work.
    type Failure;

    /// Starts the work.
    fn begin(self, context: LockContext) -> Self::Future;
}

impl<F, Fut, T, E> Work for F
where
    F: FnOnce(LockContext) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    type Future = Fut;
    type Success = T;
    type Failure = E;

    fn begin(self, context: LockContext) -> Fut {
        self(context)
    }
}

/// Checks, under the lock and before the work, whether the work is already done, for example in the
/// user's own database. Implemented by closures that take a [`LockContext`] and return a future.
pub trait Check<E> {
    /// Resolves to `true` if the work is done.
    type Future: Future<Output = Result<bool, E>>;

    /// Starts the check. Called once. `None` if there is nothing to check.
    fn check(self, context: LockContext) -> Option<Self::Future>;
}

/// No check: only the nodes' records count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unchecked(pub(super) ());

impl<E> Check<E> for Unchecked {
    type Future = Pending<Result<bool, E>>;

    fn check(self, _: LockContext) -> Option<Self::Future> {
        None
    }
}

impl<F, Fut, E> Check<E> for F
where
    F: FnOnce(LockContext) -> Fut,
    Fut: Future<Output = Result<bool, E>>,
{
    type Future = Fut;

    fn check(self, context: LockContext) -> Option<Fut> {
        Some(self(context))
    }
}

/// What happens to a key when its work has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkVerdict {
    /// It is done.
    Done,
    /// It is free.
    Free,
    /// The outcome is unknown: the key is held or free, see [`UnknownOutcome`](super::UnknownOutcome).
    Unknown {
        /// Time for which the key is held if that setting leaves it free.
        hold: Option<Duration>,
    },
}

/// Decides whether an output of the work means that the key is done. Implemented by closures.
pub trait Completes<T> {
    /// Returns whether the key is done; if not, it is free for the next try.
    fn completes(&self, output: &T) -> bool;

    /// Returns what happens to the key.
    #[doc(hidden)]
    fn verdict(&self, output: &T) -> WorkVerdict {
        if self.completes(output) { WorkVerdict::Done } else { WorkVerdict::Free }
    }

    /// Returns whether a record with this payload is final although its writer still holds the lock.
    #[doc(hidden)]
    fn is_settled(&self, _payload: &[u8]) -> bool {
        true
    }

    /// Returns the payload of the record.
    #[doc(hidden)]
    fn payload(&self, _output: &T) -> Arc<[u8]> {
        Arc::default()
    }
}

/// Every `Ok` is done. Over HTTP and gRPC the layer decides by the status.
#[derive(Clone, Copy, Debug, Default)]
pub struct Always(pub(super) ());

impl<T> Completes<T> for Always {
    fn completes(&self, _: &T) -> bool {
        true
    }
}

impl<T, F: Fn(&T) -> bool> Completes<T> for F {
    fn completes(&self, output: &T) -> bool {
        self(output)
    }
}

/// The check, then the work unless the check finds it done.
#[pin_project(project = CheckedWorkProj)]
pub(super) enum CheckedWork<W: Work, C: Check<W::Failure>> {
    Checking {
        #[pin]
        check: C::Future,
        then: Option<(W, StartedFlag, LockContext)>,
    },
    Working {
        #[pin]
        work: W::Future,
    },
}

impl<W: Work, C: Check<W::Failure>> CheckedWork<W, C> {
    pub(super) fn new(work: W, check: C, started: StartedFlag, context: LockContext) -> Self {
        match check.check(context.clone()) {
            Some(check) => Self::Checking { check, then: Some((work, started, context)) },
            None => Self::begin(work, &started, context),
        }
    }

    fn begin(work: W, started: &StartedFlag, context: LockContext) -> Self {
        started.set();
        Self::Working { work: work.begin(context) }
    }
}

impl<W: Work, C: Check<W::Failure>> Future for CheckedWork<W, C> {
    /// The output; `None` if the check found the work done.
    type Output = Result<Option<W::Success>, W::Failure>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match self.as_mut().project() {
                CheckedWorkProj::Checking { check, then } => {
                    if ready!(check.poll(cx))? {
                        return Poll::Ready(Ok(None));
                    }
                    let (work, started, context) = then.take().expect("polled after it was ready");
                    self.set(Self::begin(work, &started, context));
                }
                CheckedWorkProj::Working { work } => return work.poll(cx).map_ok(Some),
            }
        }
    }
}
