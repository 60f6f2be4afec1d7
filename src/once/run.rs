use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;

use super::{Always, Check, Once, OnceError, Unchecked, Work, call::OnceCall};

/// The future of [`OnceRequest::run`](super::OnceRequest::run).
///
/// # Panics
///
/// If polled again after it was ready, and where the work panics: see [`UnknownOutcome`](super::UnknownOutcome).
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct OnceRun<W: Work, C: Check<W::Failure> = Unchecked> {
    #[pin]
    call: OnceCall<W, C, Always>,
}

impl<W: Work, C: Check<W::Failure>> OnceRun<W, C> {
    pub(super) const fn new(call: OnceCall<W, C, Always>) -> Self {
        Self { call }
    }
}

impl<W: Work, C: Check<W::Failure>> Future for OnceRun<W, C> {
    type Output = Result<Once<W::Success>, OnceError<W::Failure>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.project().call.poll(cx)).map(Once::from))
    }
}

impl<W: Work, C: Check<W::Failure>> fmt::Debug for OnceRun<W, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceRun")
            .field("resource", &self.call.resource())
            .field("state", &self.call.name())
            .finish_non_exhaustive()
    }
}
