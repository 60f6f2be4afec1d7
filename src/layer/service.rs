//! The service that locks the resource of each request.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::{GuardError, Plain, RedlockFuture, RedlockLayer, ResourceKey, call::LockedCall};
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
    ) -> RedlockFuture<S, Request, P>
    where
        S: Service<Request> + Clone,
        K: ResourceKey<Request>,
        P: Clone,
    {
        let (service, protocol) = (self.inner.clone(), self.layer.protocol.clone());
        match self.lock_for(&request) {
            Ok(Some((lock, resource))) => {
                let call = LockedCall { service, request, layer: self.layer.name.clone() };
                RedlockFuture::acquiring(set(lock), resource, call, protocol)
            }
            Ok(None) => RedlockFuture::unguarded(service, request, protocol),
            Err(error) => RedlockFuture::rejected(error, None, protocol),
        }
    }

    /// Returns the resource of a request, and the request for the lock on it, with the settings of the layer.
    /// `None` for a request that needs no lock.
    pub(super) fn lock_for<Request>(
        &self,
        request: &Request,
    ) -> Result<Option<(LockRequest, Resource)>, LockError>
    where
        K: ResourceKey<Request>,
    {
        let found = self.layer.key.key(request);
        let found = found.map_err(|error| LockError::InvalidResource(error.into()))?;
        let Some(resource) = found else { return Ok(None) };
        let lock = self.layer.redlock.lock(resource.clone()).for_client();
        let mut lock = lock.options(self.layer.options);
        if let Some(is_shared) = self.layer.key.shared(request) {
            lock = lock.options(LockOptions::new().shared(is_shared));
        }
        Ok(Some((lock, resource)))
    }
}

impl<S, K: Clone, P: Clone> Layer<S> for RedlockLayer<K, P> {
    type Service = RedlockService<S, K, P>;

    fn layer(&self, inner: S) -> Self::Service {
        if let Err(error) = self.check() {
            crate::log::error!(%error, "a RedlockLayer rejects every request");
        }
        RedlockService::new(inner, self.clone())
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
        self.begin(request, |lock| lock)
    }
}
