//! The future of a request.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;

use super::{FencingError, FencingServiceError, memory::Visit};
use crate::{layer::Plain, resource::Resource};

/// A future that is polled only until a token newer than its own arrives.
#[pin_project]
pub(super) struct Fenced<F> {
    #[pin]
    state: FencedState<F>,
}

#[pin_project(project = FencedStateProj)]
enum FencedState<F> {
    Refused {
        error: Option<FencingError>,
    },
    Unfenced {
        #[pin]
        future: F,
    },
    /// The future is dropped before the visit ends: fields are dropped in this order.
    Running {
        #[pin]
        future: F,
        visit: Visit,
        resource: Resource,
    },
    Over,
}

impl<F> Fenced<F> {
    pub(super) const fn refused(error: FencingError) -> Self {
        Self { state: FencedState::Refused { error: Some(error) } }
    }

    pub(super) const fn unfenced(future: F) -> Self {
        Self { state: FencedState::Unfenced { future } }
    }

    pub(super) const fn running(future: F, visit: Visit, resource: Resource) -> Self {
        Self { state: FencedState::Running { future, visit, resource } }
    }

    #[cfg(feature = "http")]
    pub(super) const fn is_running(&self) -> bool {
        matches!(self.state, FencedState::Running { .. })
    }

    pub(super) const fn name(&self) -> &'static str {
        match self.state {
            FencedState::Refused { .. } => "refused",
            FencedState::Unfenced { .. } => "unfenced",
            FencedState::Running { .. } => "running",
            FencedState::Over => "over",
        }
    }
}

impl<F: Future> Future for Fenced<F> {
    type Output = Result<F::Output, FencingError>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (future, visit, resource) = match this.state.as_mut().project() {
            FencedStateProj::Refused { error } => {
                return Poll::Ready(Err(error.take().expect("polled after it was ready")));
            }
            FencedStateProj::Unfenced { future } => return future.poll(cx).map(Ok),
            FencedStateProj::Running { future, visit, resource } => (future, visit, resource),
            FencedStateProj::Over => panic!("polled after it was ready"),
        };
        // Registered before the check below, so that a later token wakes this task.
        visit.watch(cx);
        let result = match visit.overtaken() {
            Some(error) => Err(error),
            None => match (future.poll(cx), visit.overtaken()) {
                // The poll began in time, so its result counts.
                (Poll::Ready(output), _) => Ok(output),
                (Poll::Pending, Some(error)) => Err(error),
                (Poll::Pending, None) => return Poll::Pending,
            },
        };
        if let Err(error) = &result {
            error.log_overtaken(resource);
        }
        this.state.set(FencedState::Over);
        Poll::Ready(result)
    }
}

/// The future of a request through a [`FencingLayer`](super::FencingLayer). `F` is the future of
/// the service, and `P` the protocol of the layer.
///
/// # Cancel safety
///
/// Dropping it drops the inner future. The token counts as seen nevertheless.
///
/// # Panics
///
/// If polled again after it was ready, or if the service panics.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct FencingFuture<F, P = Plain> {
    #[pin]
    pub(super) fenced: Fenced<F>,
    pub(super) protocol: P,
}

impl<F, T, E> Future for FencingFuture<F>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, FencingServiceError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().fenced.poll(cx)) {
            Ok(result) => result.map_err(FencingServiceError::Service),
            Err(error) => Err(FencingServiceError::Fencing(error)),
        })
    }
}

impl<F, P> fmt::Debug for FencingFuture<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencingFuture").field("state", &self.fenced.name()).finish_non_exhaustive()
    }
}
