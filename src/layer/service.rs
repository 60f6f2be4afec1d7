//! The service that locks the resource of each request.

use std::task::{Context, Poll};

use tower_service::Service;

use super::{
    GuardError, Plain, RedlockFuture, RedlockLayer, ResourceKey,
    call::{Protocol, RedlockCall},
};
use crate::{
    error::LockError,
    lock::{LockOptions, LockRequest},
    resource::Resource,
};

/// Defines the methods of a service that return its field `inner`, of the type `S`.
macro_rules! inner_service {
    () => {
        /// Returns the inner service.
        pub const fn get_ref(&self) -> &S {
            &self.inner
        }

        /// Returns the inner service.
        pub const fn get_mut(&mut self) -> &mut S {
            &mut self.inner
        }

        /// Returns the inner service.
        pub fn into_inner(self) -> S {
            self.inner
        }
    };
}
pub(crate) use inner_service;

/// A service whose requests run under a lock. Created by [`RedlockLayer`](super::RedlockLayer).
///
/// The service is always ready. The inner service is made ready under the lock, so that waiting
/// requests occupy no permit of an inner `ConcurrencyLimit` and no place of a `Buffer`. An error of
/// the inner service's readiness becomes the error of the request.
#[derive(Clone, Debug)]
pub struct RedlockService<S, K, P = Plain> {
    pub(super) inner: S,
    layer: RedlockLayer<K, P>,
}

impl<S, K, P> RedlockService<S, K, P> {
    pub(super) const fn new(inner: S, layer: RedlockLayer<K, P>) -> Self {
        Self { inner, layer }
    }

    inner_service!();

    #[cfg(feature = "http")]
    pub(super) const fn layer(&self) -> &RedlockLayer<K, P> {
        &self.layer
    }

    /// Starts a call of the service. `set` adjusts the lock request.
    pub(super) fn begin<Request>(
        &self,
        request: Request,
        set: impl FnOnce(LockRequest) -> LockRequest,
    ) -> RedlockCall<S, Request, P>
    where
        S: Service<Request> + Clone,
        K: ResourceKey<Request>,
        P: Protocol<Request> + Clone,
    {
        match self.layer.key.key(&request) {
            Ok(Some(resource)) => {
                let asked = set(self.ask(&request, &resource));
                let call = (self.inner.clone(), request, self.layer.protocol.clone());
                RedlockCall::acquiring(asked, resource, self.layer.name.clone(), call)
            }
            Ok(None) => RedlockCall::unguarded(self.inner.clone(), request),
            Err(error) => RedlockCall::rejected(LockError::InvalidResource(error.into()), None),
        }
    }

    /// Returns the request for the lock on the resource of a request, with the settings of the layer.
    pub(super) fn ask<Request>(&self, request: &Request, resource: &Resource) -> LockRequest
    where
        K: ResourceKey<Request>,
    {
        let asked = self.layer.redlock.lock(resource.clone()).for_client();
        let asked = asked.options(self.layer.options);
        match self.layer.key.shared(request) {
            Some(is_shared) => asked.options(LockOptions::new().shared(is_shared)),
            None => asked,
        }
    }
}

impl<S, K, Request> Service<Request> for RedlockService<S, K>
where
    S: Service<Request> + Clone,
    K: ResourceKey<Request>,
{
    type Response = S::Response;
    type Error = GuardError<S::Error>;
    type Future = RedlockFuture<S, Request>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        RedlockFuture::new(self.begin(request, |lock| lock), Plain(()))
    }
}
