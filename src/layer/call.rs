//! One request: the lock, then the inner service.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;
use tower_service::Service;

use super::{Plain, protocol::Protocol, ready_call::ReadyCall};
use crate::{
    error::LockError,
    guard::{GuardError, Guarded, Hold},
    lock::{Acquire, LockRequest},
    resource::Resource,
};

/// A response, and the hold on its lock.
type HeldResponse<R, E> = Result<(R, Option<Hold>), GuardError<E>>;

/// The future of a request that passes a [`RedlockLayer`](super::RedlockLayer): acquires the lock,
/// then calls the service and polls it while the lock is valid.
///
/// # Cancel safety
///
/// Dropping it drops the inner future, then releases the lock.
///
/// # Panics
///
/// If polled again after it was ready, or if the service panics; the lock is then released.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct RedlockFuture<S: Service<Request>, Request, P = Plain> {
    #[pin]
    state: CallState<S, Request>,
    resource: Option<Resource>,
    pub(super) protocol: P,
}

#[pin_project(project = CallStateProj)]
enum CallState<S: Service<Request>, Request> {
    Rejected {
        error: Option<LockError>,
    },
    Unguarded {
        #[pin]
        future: ReadyCall<S, Request>,
    },
    Acquiring {
        #[pin]
        acquire: Acquire,
        call: Option<LockedCall<S, Request>>,
    },
    Running {
        #[pin]
        guarded: Guarded<ReadyCall<S, Request>>,
    },
}

/// A call of the service, to be made under the lock.
pub(super) struct LockedCall<S, Request> {
    pub(super) service: S,
    pub(super) request: Request,
    /// The name of the layer.
    pub(super) layer: Option<Arc<str>>,
}

impl<S: Service<Request>, Request, P> RedlockFuture<S, Request, P> {
    pub(super) fn rejected(error: LockError, resource: Option<Resource>, protocol: P) -> Self {
        Self { state: CallState::Rejected { error: Some(error) }, resource, protocol }
    }

    pub(super) fn unguarded(service: S, request: Request, protocol: P) -> Self {
        let future = ReadyCall::new(service, request);
        Self { state: CallState::Unguarded { future }, resource: None, protocol }
    }

    pub(super) fn acquiring(
        lock: LockRequest,
        resource: Resource,
        call: LockedCall<S, Request>,
        protocol: P,
    ) -> Self {
        let state = CallState::Acquiring { acquire: lock.acquire_for_work(), call: Some(call) };
        Self { state, resource: Some(resource), protocol }
    }

    /// The resource, if the request needs a lock.
    #[cfg(feature = "http")]
    pub(super) const fn resource(&self) -> Option<&Resource> {
        self.resource.as_ref()
    }

    pub(super) const fn state_name(&self) -> &'static str {
        match self.state {
            CallState::Rejected { .. } => "rejected",
            CallState::Unguarded { .. } => "unguarded",
            CallState::Acquiring { .. } => "acquiring",
            CallState::Running { .. } => "running",
        }
    }

    /// Polls the call while the lock is valid.
    fn poll_call(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<HeldResponse<S::Response, S::Error>>
    where
        P: Protocol<Request>,
    {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                CallStateProj::Rejected { error } => {
                    let error = error.take().expect("polled after it was ready");
                    return Poll::Ready(Err(GuardError::Lock(error)));
                }
                CallStateProj::Unguarded { future } => {
                    let result = ready!(future.poll(cx));
                    return Poll::Ready(match result {
                        Ok(response) => Ok((response, None)),
                        Err(error) => Err(GuardError::Work(error)),
                    });
                }
                CallStateProj::Acquiring { acquire, call } => {
                    let lock = ready!(acquire.poll(cx))?;
                    let LockedCall { service, mut request, layer } =
                        call.take().expect("the call is taken only here");
                    let guarded = Guarded::start(lock, |context| {
                        this.protocol.prepare(&mut request, layer, &context);
                        ReadyCall::new(service, request)
                    })?;
                    this.state.set(CallState::Running { guarded });
                }
                CallStateProj::Running { guarded } => {
                    let (result, hold) = ready!(guarded.poll(cx))?;
                    return Poll::Ready(match result {
                        Ok(response) => Ok((response, Some(hold))),
                        Err(error) => Err(GuardError::Work(error)),
                    });
                }
            }
        }
    }

    /// Polls the call. Drops the response, and fails, if the lock ended during the poll.
    #[cfg(feature = "http")]
    pub(super) fn poll_covered(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<HeldResponse<S::Response, S::Error>>
    where
        P: Protocol<Request>,
    {
        let (response, hold) = ready!(self.poll_call(cx))?;
        Poll::Ready(match hold {
            Some(hold) => hold
                .still_covers(response)
                .map(|(response, hold)| (response, Some(hold)))
                .map_err(GuardError::Lock),
            None => Ok((response, None)),
        })
    }
}

impl<S: Service<Request>, Request> Future for RedlockFuture<S, Request> {
    type Output = Result<S::Response, GuardError<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (response, _hold) = ready!(self.poll_call(cx))?;
        Poll::Ready(Ok(response))
    }
}

impl<S: Service<Request>, Request, P> fmt::Debug for RedlockFuture<S, Request, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedlockFuture").field("state", &self.state_name()).finish_non_exhaustive()
    }
}
