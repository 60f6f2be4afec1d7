use std::{
    future::IntoFuture,
    task::{Context, Poll},
};

use tower_service::Service;

use super::{Error, ResourceKey, ResponseFuture, layer::Terms};
use crate::{error::LockError, lock::Redlock};

/// A service whose requests run under a lock. Made by [`RedlockLayer`](super::RedlockLayer).
///
/// The inner service is made ready before the wait for the lock: a permit of an inner
/// `ConcurrencyLimit`, or a place in a `Buffer`, is held meanwhile. Put such layers outside.
#[derive(Clone, Debug)]
pub struct RedlockService<S, K> {
    inner: S,
    redlock: Redlock,
    key: K,
    terms: Terms,
}

impl<S, K> RedlockService<S, K> {
    pub(super) const fn new(inner: S, redlock: Redlock, key: K, terms: Terms) -> Self {
        Self { inner, redlock, key, terms }
    }

    /// The wrapped service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The wrapped service.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The wrapped service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, K, Request> Service<Request> for RedlockService<S, K>
where
    S: Service<Request> + Clone,
    K: ResourceKey<Request>,
{
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = ResponseFuture<S, Request>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Error::Service)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match self.key.key(&request) {
            Ok(Some(resource)) => {
                let acquire = self.terms.apply(self.redlock.lock(resource)).into_future();
                // The service that was made ready is the one to be called; a clone stays behind.
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                ResponseFuture::acquiring(acquire, ready, request)
            }
            Ok(None) => ResponseFuture::unguarded(self.inner.call(request)),
            Err(error) => ResponseFuture::rejected(LockError::InvalidResource(error.into())),
        }
    }
}
