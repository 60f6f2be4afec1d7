//! The check before the work, and the rule that decides whether the work is done.

use std::{
    future::{Future, Pending},
    sync::Arc,
    time::Duration,
};

use crate::{guard::LockContext, layer::FailedCall};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkVerdict {
    /// It is done.
    Done {
        /// The payload of its record.
        payload: Arc<[u8]>,
    },
    /// It is free.
    Free,
    /// The outcome is unknown: the key is held or free, see [`UnknownOutcome`](super::UnknownOutcome).
    Unknown {
        /// Time for which the key is held if that setting leaves it free.
        hold: Option<Duration>,
    },
}

/// The output of work, and what it means for its key.
pub(crate) type EndedWork<T, E> = (Result<T, E>, WorkVerdict);

/// An error of a service that was called may come after its effect: a timeout, a broken connection.
pub(crate) fn failed<T, E>(failed: FailedCall<E>, hold: Option<Duration>) -> EndedWork<T, E> {
    let FailedCall { error, was_called } = failed;
    let verdict = if was_called { WorkVerdict::Unknown { hold } } else { WorkVerdict::Free };
    (Err(error), verdict)
}

impl WorkVerdict {
    /// A key that is done, with an empty payload.
    pub(super) fn done() -> Self {
        Self::Done { payload: Arc::default() }
    }

    /// A key that is done or free.
    pub(super) fn of(is_done: bool) -> Self {
        if is_done { Self::done() } else { Self::Free }
    }
}

/// Decides whether an output of the work means that the key is done. Implemented by closures.
pub trait Completes<T> {
    /// Returns whether the key is done; if not, it is free for the next try.
    fn completes(&self, output: &T) -> bool;
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
