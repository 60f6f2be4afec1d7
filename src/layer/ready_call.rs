//! A call of a service that is first made ready.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;
use tower_service::Service;

/// A request to a service that need not be ready yet.
///
/// Services whose requests wait for a lock make the inner service ready after the wait. Its
/// readiness may be a permit of a `ConcurrencyLimit` or a place in a `Buffer`, which waiting
/// requests must not occupy.
#[pin_project]
pub(crate) struct ReadyCall<S: Service<Request>, Request> {
    #[pin]
    state: ReadyCallState<S, Request>,
}

#[pin_project(project = ReadyCallStateProj)]
enum ReadyCallState<S: Service<Request>, Request> {
    Readying {
        service: S,
        request: Option<Request>,
    },
    Calling {
        #[pin]
        future: S::Future,
    },
}

impl<S: Service<Request>, Request> ReadyCall<S, Request> {
    pub(crate) const fn new(service: S, request: Request) -> Self {
        Self { state: ReadyCallState::Readying { service, request: Some(request) } }
    }
}

#[cfg(feature = "once")]
impl<S: Service<Request>, Request> ReadyCall<S, Request> {
    /// Calls the service. An error has whether the service was called before.
    pub(crate) async fn tracked(self) -> Result<S::Response, FailedCall<S::Error>> {
        let mut call = std::pin::pin!(self);
        let result = call.as_mut().await;
        result.map_err(|error| {
            let was_called = matches!(call.state, ReadyCallState::Calling { .. });
            FailedCall { error, was_called }
        })
    }
}

/// An error of a service.
#[cfg(feature = "once")]
#[derive(Debug)]
pub(crate) struct FailedCall<E> {
    pub(crate) error: E,
    /// Otherwise it did not become ready, and nothing was done.
    pub(crate) was_called: bool,
}

impl<S: Service<Request>, Request> Future for ReadyCall<S, Request> {
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                ReadyCallStateProj::Readying { service, request } => {
                    ready!(service.poll_ready(cx))?;
                    let request = request.take().expect("polled after it was ready");
                    let future = service.call(request);
                    state.set(ReadyCallState::Calling { future });
                }
                ReadyCallStateProj::Calling { future } => return future.poll(cx),
            }
        }
    }
}

impl<S: Service<Request>, Request> fmt::Debug for ReadyCall<S, Request> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadyCall").finish_non_exhaustive()
    }
}
