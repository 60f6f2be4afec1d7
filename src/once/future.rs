use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;
use tower_service::Service;

use super::{Completes, Once, OnceError, Unchecked, call::OnceCall, service::ServiceCall};

/// The future of a request behind an [`OnceLayer`](super::OnceLayer).
///
/// # Cancel safety
///
/// Dropping it drops the inner future, then gives the lock back. What has begun has an unknown outcome
/// then: see [`UnknownOutcome`](super::UnknownOutcome).
///
/// # Panics
///
/// If polled again after it was ready, and where the service panics: its outcome is unknown then.
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
