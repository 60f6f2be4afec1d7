use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;

use super::{Check, record::Begun};
use crate::guard::LockContext;

/// Work that is begun once, under the lock of its key. Closures that take a [`LockContext`] and
/// return a future of a `Result` are work.
pub trait Work {
    /// The work, once it has begun.
    type Future: Future<Output = Result<Self::Success, Self::Failure>>;
    /// What it makes.
    type Success;
    /// How it fails.
    type Failure;

    /// Begins it.
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

/// The check, then the work unless the check says that it is done.
#[pin_project(project = CheckedProj)]
pub(super) enum Checked<W: Work, C: Check<W::Failure>> {
    Checking {
        #[pin]
        check: C::Future,
        then: Option<(W, Begun, LockContext)>,
    },
    Working {
        #[pin]
        work: W::Future,
    },
}

impl<W: Work, C: Check<W::Failure>> Checked<W, C> {
    pub(super) fn new(work: W, check: C, begun: Begun, context: LockContext) -> Self {
        match check.check(context.clone()) {
            Some(check) => Self::Checking { check, then: Some((work, begun, context)) },
            None => Self::begin(work, &begun, context),
        }
    }

    fn begin(work: W, begun: &Begun, context: LockContext) -> Self {
        begun.set();
        Self::Working { work: work.begin(context) }
    }
}

impl<W: Work, C: Check<W::Failure>> Future for Checked<W, C> {
    /// What the work made; `None` where it did not begin, as it was done before.
    type Output = Result<Option<W::Success>, W::Failure>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match self.as_mut().project() {
                CheckedProj::Checking { check, then } => {
                    if ready!(check.poll(cx))? {
                        return Poll::Ready(Ok(None));
                    }
                    let (work, begun, context) = then.take().expect("the work is begun only here");
                    self.set(Self::begin(work, &begun, context));
                }
                CheckedProj::Working { work } => return work.poll(cx).map_ok(Some),
            }
        }
    }
}
