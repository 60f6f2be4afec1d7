use std::future::{Future, Pending};

use crate::guard::LockContext;

/// Asks, under the lock and before the work, whether the work is done already: in the user's own
/// database, say. Closures that take a [`LockContext`] and return a future are checks.
pub trait Check<E> {
    /// Tells whether it is done.
    type Future: Future<Output = Result<bool, E>>;

    /// Asked once. `None`: there is nothing to ask.
    fn check(self, context: LockContext) -> Option<Self::Future>;
}

/// No check: the nodes' records alone tell.
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
