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

use super::{Plain, ready_call::ReadyCall};
use crate::{
    error::LockError,
    guard::{GuardError, Guarded, Hold, LockContext},
    lock::{Acquire, LockRequest},
    resource::Resource,
};

/// Prepares a request for the service, by the protocol of a layer.
pub(super) trait Protocol<Request> {
    /// Called once, under the lock. `layer` is the name of the layer.
    fn prepare(&self, request: &mut Request, layer: Option<Arc<str>>, context: &LockContext);
}

/// A response, and the hold on its lock.
type HeldResponse<R, E> = Result<(R, Option<Hold>), GuardError<E>>;

/// One request: acquires the lock, calls the service, and polls it while the lock is valid.
#[pin_project]
pub(super) struct RedlockCall<S: Service<Request>, Request, P> {
    #[pin]
    state: RedlockCallState<S, Request, P>,
    resource: Option<Resource>,
}

#[pin_project(project = RedlockCallStateProj)]
#[expect(
    clippy::large_enum_variant,
    reason = "the task's own memory holds the state: boxing costs an allocation"
)]
enum RedlockCallState<S: Service<Request>, Request, P> {
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
        call: Option<(S, Request, P)>,
        layer: Option<Arc<str>>,
    },
    Running {
        #[pin]
        guarded: Guarded<ReadyCall<S, Request>>,
    },
}

impl<S: Service<Request>, Request, P> RedlockCall<S, Request, P> {
    pub(super) fn rejected(error: LockError, resource: Option<Resource>) -> Self {
        Self { state: RedlockCallState::Rejected { error: Some(error) }, resource }
    }

    pub(super) fn unguarded(service: S, request: Request) -> Self {
        let future = ReadyCall::new(service, request);
        Self { state: RedlockCallState::Unguarded { future }, resource: None }
    }

    pub(super) fn acquiring(
        request: LockRequest,
        resource: Resource,
        layer: Option<Arc<str>>,
        call: (S, Request, P),
    ) -> Self {
        let acquire = request.acquire();
        let state = RedlockCallState::Acquiring { acquire, call: Some(call), layer };
        Self { state, resource: Some(resource) }
    }

    /// The resource, if the request needs a lock.
    #[cfg(feature = "http")]
    pub(super) const fn resource(&self) -> Option<&Resource> {
        self.resource.as_ref()
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
        let (response, hold) = ready!(self.poll(cx))?;
        Poll::Ready(match hold {
            Some(hold) => hold
                .still_covers(response)
                .map(|(response, hold)| (response, Some(hold)))
                .map_err(GuardError::Lock),
            None => Ok((response, None)),
        })
    }

    pub(super) const fn name(&self) -> &'static str {
        match self.state {
            RedlockCallState::Rejected { .. } => "rejected",
            RedlockCallState::Unguarded { .. } => "unguarded",
            RedlockCallState::Acquiring { .. } => "acquiring",
            RedlockCallState::Running { .. } => "running",
        }
    }
}

impl<S, Request, P> Future for RedlockCall<S, Request, P>
where
    S: Service<Request>,
    P: Protocol<Request>,
{
    type Output = HeldResponse<S::Response, S::Error>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                RedlockCallStateProj::Rejected { error } => {
                    let error = error.take().expect("polled after it was ready");
                    return Poll::Ready(Err(GuardError::Lock(error)));
                }
                RedlockCallStateProj::Unguarded { future } => {
                    let result = ready!(future.poll(cx));
                    return Poll::Ready(match result {
                        Ok(response) => Ok((response, None)),
                        Err(error) => Err(GuardError::Service(error)),
                    });
                }
                RedlockCallStateProj::Acquiring { acquire, call, layer } => {
                    let lock = ready!(acquire.poll(cx))?;
                    let (service, mut request, protocol) =
                        call.take().expect("the call is taken only here");
                    let layer = layer.take();
                    let guarded = Guarded::start(lock, |context| {
                        protocol.prepare(&mut request, layer, &context);
                        ReadyCall::new(service, request)
                    })?;
                    this.state.set(RedlockCallState::Running { guarded });
                }
                RedlockCallStateProj::Running { guarded } => {
                    let (result, hold) = ready!(guarded.poll(cx))?;
                    return Poll::Ready(match result {
                        Ok(response) => Ok((response, Some(hold))),
                        Err(error) => Err(GuardError::Service(error)),
                    });
                }
            }
        }
    }
}

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
    pub(super) call: RedlockCall<S, Request, P>,
    pub(super) protocol: P,
}

impl<S: Service<Request>, Request, P> RedlockFuture<S, Request, P> {
    pub(super) const fn new(call: RedlockCall<S, Request, P>, protocol: P) -> Self {
        Self { call, protocol }
    }
}

impl<S: Service<Request>, Request> Future for RedlockFuture<S, Request> {
    type Output = Result<S::Response, GuardError<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (response, _hold) = ready!(self.project().call.poll(cx))?;
        Poll::Ready(Ok(response))
    }
}

impl<S: Service<Request>, Request, P> fmt::Debug for RedlockFuture<S, Request, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedlockFuture").field("state", &self.call.name()).finish_non_exhaustive()
    }
}
