//! The future of a request behind a once layer.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// The future of a request behind an [`OnceLayer`](crate::OnceLayer): an allocation for each request.
///
/// Over gRPC it ends with the head of the response, whose body drives the call to its status.
///
/// # Cancel safety
///
/// Dropping it before the call of the service drops the request, and frees the key. After that:
///
/// * A request behind a plain layer is dropped, and its outcome is unknown: see
///   [`UnknownOutcome`](super::UnknownOutcome).
/// * Over HTTP and gRPC the service runs to its end, which is recorded, unless
///   [`detached`](crate::OnceLayer::detached) is off.
///
/// # Panics
///
/// If polled again after it was ready, or if the service panics: its outcome is then unknown.
#[must_use = "futures do nothing unless polled"]
pub struct OnceFuture<T, E>(Pin<Box<dyn Future<Output = Result<T, E>> + Send>>);

impl<T, E> OnceFuture<T, E> {
    pub(super) fn new(future: impl Future<Output = Result<T, E>> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }
}

impl<T, E> Future for OnceFuture<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<T, E> fmt::Debug for OnceFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceFuture").finish_non_exhaustive()
    }
}
