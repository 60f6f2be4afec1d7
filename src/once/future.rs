//! The futures of a once request and of a request behind an `OnceLayer`.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;
use tower_service::Service;

use super::{
    Always, Check, Completes, Once, OnceError, Unchecked, Work, call::OnceCall,
    service::ServiceCall,
};

/// The future of a request behind an [`OnceLayer`](super::OnceLayer).
///
/// # Cancel safety
///
/// Dropping it drops the inner future, then releases the lock. If the inner future had started, its
/// outcome is unknown: see [`UnknownOutcome`](super::UnknownOutcome).
///
/// # Panics
///
/// If polled again after it was ready, or if the service panics: its outcome is then unknown.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct OnceFuture<S: Service<Request>, Request, C> {
    #[pin]
    call: OnceCall<ServiceCall<S, Request>, Unchecked, C>,
}

impl<S: Service<Request>, Request, C> OnceFuture<S, Request, C> {
    pub(super) const fn new(call: OnceCall<ServiceCall<S, Request>, Unchecked, C>) -> Self {
        Self { call }
    }
}

impl<S, Request, C> Future for OnceFuture<S, Request, C>
where
    S: Service<Request>,
    C: Completes<S::Response>,
{
    type Output = Result<Once<S::Response>, OnceError<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.project().call.poll(cx)).map(Once::from))
    }
}

impl<S: Service<Request>, Request, C> fmt::Debug for OnceFuture<S, Request, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceFuture").field("state", &self.call.name()).finish_non_exhaustive()
    }
}

/// The future of [`OnceRequest::run`](super::OnceRequest::run).
///
/// # Panics
///
/// If polled again after it was ready, or if the work panics: see [`UnknownOutcome`](super::UnknownOutcome).
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
