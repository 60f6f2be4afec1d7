use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;
use tower_service::Service;

use super::Error;
use crate::{error::LockError, guard::Guarded, lock::Acquire};

/// The future of a request behind a [`RedlockLayer`](super::RedlockLayer): acquires the lock, then
/// calls the service and polls it while the lock is valid.
///
/// # Cancel safety
///
/// Dropping it drops the inner future, then gives the lock back.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<S: Service<Request>, Request> {
    #[pin]
    state: State<S, Request>,
}

#[pin_project(project = StateProj)]
enum State<S: Service<Request>, Request> {
    Rejected {
        error: Option<LockError>,
    },
    Unguarded {
        #[pin]
        future: S::Future,
    },
    Acquiring {
        #[pin]
        acquire: Acquire,
        call: Option<(S, Request)>,
    },
    Running {
        #[pin]
        guarded: Guarded<S::Future>,
    },
}

impl<S: Service<Request>, Request> ResponseFuture<S, Request> {
    pub(super) fn rejected(error: LockError) -> Self {
        Self { state: State::Rejected { error: Some(error) } }
    }

    pub(super) fn unguarded(future: S::Future) -> Self {
        Self { state: State::Unguarded { future } }
    }

    pub(super) fn acquiring(acquire: Acquire, service: S, request: Request) -> Self {
        Self { state: State::Acquiring { acquire, call: Some((service, request)) } }
    }
}

impl<S: Service<Request>, Request> Future for ResponseFuture<S, Request> {
    type Output = Result<S::Response, Error<S::Error>>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProj::Rejected { error } => {
                    let error = error.take().expect("polled after it was ready");
                    return Poll::Ready(Err(Error::Lock(error)));
                }
                StateProj::Unguarded { future } => return future.poll(cx).map_err(Error::Service),
                StateProj::Acquiring { acquire, call } => {
                    let lock = ready!(acquire.poll(cx))?;
                    let (mut service, request) = call.take().expect("the call is taken only here");
                    let guarded = Guarded::start(lock, |_| service.call(request))?;
                    this.state.set(State::Running { guarded });
                }
                StateProj::Running { guarded } => {
                    return Poll::Ready(ready!(guarded.poll(cx))?.map_err(Error::Service));
                }
            }
        }
    }
}

impl<S: Service<Request>, Request> fmt::Debug for ResponseFuture<S, Request> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Rejected { .. } => "rejected",
            State::Unguarded { .. } => "unguarded",
            State::Acquiring { .. } => "acquiring",
            State::Running { .. } => "running",
        };
        f.debug_struct("ResponseFuture").field("state", &state).finish_non_exhaustive()
    }
}
