use std::task::{Context, Poll};

use tower_service::Service;

use super::{
    Error, Plain, RedlockLayer, ResourceKey, ResponseFuture,
    call::{Call, Enter},
};
use crate::{error::LockError, lock::LockRequest, resource::Resource};

/// A service whose requests run under a lock. Made by [`RedlockLayer`](super::RedlockLayer).
///
/// The inner service is made ready before the wait for the lock: a permit of an inner
/// `ConcurrencyLimit`, or a place in a `Buffer`, is held meanwhile. Put such layers outside.
#[derive(Clone, Debug)]
pub struct RedlockService<S, K, F = Plain> {
    pub(super) inner: S,
    layer: RedlockLayer<K, F>,
}

impl<S, K, F> RedlockService<S, K, F> {
    pub(super) const fn new(inner: S, layer: RedlockLayer<K, F>) -> Self {
        Self { inner, layer }
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

    #[cfg(feature = "http")]
    pub(super) const fn face(&self) -> &F {
        &self.layer.face
    }

    /// Begins a call of the service that was made ready; a clone of it stays behind.
    pub(super) fn begin<Request>(&mut self, request: Request) -> Call<S, Request, F>
    where
        S: Service<Request> + Clone,
        K: ResourceKey<Request>,
        F: Enter<Request> + Clone,
    {
        self.begin_with(request, |asked| asked)
    }

    /// The same with other settings of the request for the lock.
    pub(super) fn begin_with<Request>(
        &mut self,
        request: Request,
        set: impl FnOnce(LockRequest) -> LockRequest,
    ) -> Call<S, Request, F>
    where
        S: Service<Request> + Clone,
        K: ResourceKey<Request>,
        F: Enter<Request> + Clone,
    {
        match self.layer.key.key(&request) {
            Ok(Some(resource)) => {
                let asked = set(self.ask(&resource));
                let call = (self.take_ready(), request, self.layer.face.clone());
                Call::acquiring(asked, resource, self.layer.name.clone(), call)
            }
            Ok(None) => Call::unguarded(self.inner.call(request)),
            Err(error) => Call::rejected(LockError::InvalidResource(error.into()), None),
        }
    }

    /// What is asked for a request's resource.
    pub(super) fn ask(&self, resource: &Resource) -> LockRequest {
        self.layer.redlock.lock(resource.clone()).options(self.layer.options)
    }

    /// The service that was made ready; a clone of it stays behind.
    pub(super) fn take_ready(&mut self) -> S
    where
        S: Clone,
    {
        let clone = self.inner.clone();
        std::mem::replace(&mut self.inner, clone)
    }

    #[cfg(feature = "http")]
    pub(super) const fn layer(&self) -> &RedlockLayer<K, F> {
        &self.layer
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
        ResponseFuture::new(self.begin(request))
    }
}
