use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;
use tower_service::Service;

use crate::{
    error::LockError,
    guard::{Error, Guarded, Hold, LockContext},
    lock::{Acquire, LockRequest},
    resource::Resource,
};

/// What a layer does with a request that has its lock, before the service sees it.
pub(super) trait Enter<Request> {
    /// Called once, under the lock, with the name of the layer.
    fn enter(&self, request: &mut Request, layer: Option<Arc<str>>, context: &LockContext);
}

/// A response, and the hold on the lock that it was made under.
type Made<R, E> = Result<(R, Option<Hold>), Error<E>>;

/// One request: acquires the lock, calls the service, and polls it while the lock is valid.
#[pin_project]
pub(super) struct Call<S: Service<Request>, Request, E> {
    #[pin]
    state: State<S, Request, E>,
    resource: Option<Resource>,
}

#[pin_project(project = StateProj)]
#[expect(
    clippy::large_enum_variant,
    reason = "what a task keeps in its own memory need not be allocated once more"
)]
enum State<S: Service<Request>, Request, E> {
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
        call: Option<(S, Request, E)>,
        layer: Option<Arc<str>>,
    },
    Running {
        #[pin]
        guarded: Guarded<S::Future>,
    },
}

impl<S: Service<Request>, Request, E> Call<S, Request, E> {
    pub(super) fn rejected(error: LockError, resource: Option<Resource>) -> Self {
        Self { state: State::Rejected { error: Some(error) }, resource }
    }

    pub(super) fn unguarded(future: S::Future) -> Self {
        Self { state: State::Unguarded { future }, resource: None }
    }

    pub(super) fn acquiring(
        request: LockRequest,
        resource: Resource,
        layer: Option<Arc<str>>,
        (service, call, enter): (S, Request, E),
    ) -> Self {
        let acquire = request.acquire();
        let state = State::Acquiring { acquire, call: Some((service, call, enter)), layer };
        Self { state, resource: Some(resource) }
    }

    /// What the request is about, if it needs a lock.
    #[cfg(feature = "http")]
    pub(super) const fn resource(&self) -> Option<&Resource> {
        self.resource.as_ref()
    }

    /// Fails where the lock ended inside the poll that made the response, which is dropped then.
    #[cfg(feature = "http")]
    pub(super) fn poll_covered(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Made<S::Response, S::Error>>
    where
        E: Enter<Request>,
    {
        let (response, hold) = ready!(self.poll(cx))?;
        Poll::Ready(match hold {
            Some(hold) => hold
                .still_covers(response)
                .map(|(response, hold)| (response, Some(hold)))
                .map_err(Error::Lock),
            None => Ok((response, None)),
        })
    }

    pub(super) const fn name(&self) -> &'static str {
        match self.state {
            State::Rejected { .. } => "rejected",
            State::Unguarded { .. } => "unguarded",
            State::Acquiring { .. } => "acquiring",
            State::Running { .. } => "running",
        }
    }
}

impl<S, Request, E> Future for Call<S, Request, E>
where
    S: Service<Request>,
    E: Enter<Request>,
{
    type Output = Made<S::Response, S::Error>;

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
                StateProj::Unguarded { future } => {
                    let result = ready!(future.poll(cx));
                    return Poll::Ready(match result {
                        Ok(response) => Ok((response, None)),
                        Err(error) => Err(Error::Service(error)),
                    });
                }
                StateProj::Acquiring { acquire, call, layer } => {
                    let lock = ready!(acquire.poll(cx))?;
                    let (mut service, mut request, enter) =
                        call.take().expect("the call is taken only here");
                    let layer = layer.take();
                    let guarded = Guarded::start(lock, |context| {
                        enter.enter(&mut request, layer, &context);
                        service.call(request)
                    })?;
                    this.state.set(State::Running { guarded });
                }
                StateProj::Running { guarded } => {
                    let (result, hold) = ready!(guarded.poll(cx))?;
                    return Poll::Ready(match result {
                        Ok(response) => Ok((response, Some(hold))),
                        Err(error) => Err(Error::Service(error)),
                    });
                }
            }
        }
    }
}
