use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;

use super::{Error, call::Fenced};

/// The future of a request behind a [`FencingLayer`](super::FencingLayer) without a face; `F` is
/// the service's own.
///
/// # Cancel safety
///
/// Dropping it drops the inner future. The token was seen nevertheless.
///
/// # Panics
///
/// If polled again after it was ready, and where the service panics.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<F> {
    #[pin]
    fenced: Fenced<F>,
}

impl<F> ResponseFuture<F> {
    pub(super) const fn new(fenced: Fenced<F>) -> Self {
        Self { fenced }
    }
}

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, Error<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().fenced.poll(cx)) {
            Ok(result) => result.map_err(Error::Service),
            Err(error) => Err(Error::Fencing(error)),
        })
    }
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("state", &self.fenced.name()).finish_non_exhaustive()
    }
}
