use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;
use tower_service::Service;

use super::{Error, Plain, call::Call};

/// The future of a request behind a [`RedlockLayer`](super::RedlockLayer): acquires the lock, then
/// calls the service and polls it while the lock is valid.
///
/// # Cancel safety
///
/// Dropping it drops the inner future, then gives the lock back.
///
/// # Panics
///
/// If polled again after it was ready, and where the service panics; the lock is given back then.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<S: Service<Request>, Request> {
    #[pin]
    call: Call<S, Request, Plain>,
}

impl<S: Service<Request>, Request> ResponseFuture<S, Request> {
    pub(super) const fn new(call: Call<S, Request, Plain>) -> Self {
        Self { call }
    }
}

impl<S: Service<Request>, Request> Future for ResponseFuture<S, Request> {
    type Output = Result<S::Response, Error<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (response, _hold) = ready!(self.project().call.poll(cx))?;
        Poll::Ready(Ok(response))
    }
}

impl<S: Service<Request>, Request> fmt::Debug for ResponseFuture<S, Request> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("state", &self.call.name()).finish_non_exhaustive()
    }
}
