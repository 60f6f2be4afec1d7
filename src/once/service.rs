//! The service of a once layer.

use std::task::{Context, Poll};

use tower_service::Service;

use super::{
    Always, Completes, Once, OnceError, OnceFuture, OnceLayer, OnceRequest, Unchecked, Work,
    call::OnceCall,
};
use crate::{
    error::LockError,
    guard::LockContext,
    layer::{Plain, ReadyCall, ResourceKey},
};

/// A service whose requests run once per key. Created by [`OnceLayer`].
///
/// It is always ready: the inner service is made ready under the lock, so that requests that wait for one
/// occupy no permit of a `ConcurrencyLimit` and no place of a `Buffer` inside. An error of the inner service's
/// readiness is that of the request.
#[derive(Clone, Debug)]
pub struct OnceService<S, K, C = Always, P = Plain> {
    pub(super) inner: S,
    pub(super) layer: OnceLayer<K, C, P>,
}

/// The call of the inner service.
#[derive(Debug)]
pub struct ServiceCall<S, Request> {
    service: S,
    request: Request,
}

impl<S: Service<Request>, Request> Work for ServiceCall<S, Request> {
    type Future = ReadyCall<S, Request>;
    type Success = S::Response;
    type Failure = S::Error;

    fn begin(self, _: LockContext) -> Self::Future {
        ReadyCall::new(self.service, self.request)
    }
}

impl<S, K, C, P> OnceService<S, K, C, P> {
    pub(super) const fn new(inner: S, layer: OnceLayer<K, C, P>) -> Self {
        Self { inner, layer }
    }

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
}

impl<S, K, C, Request> Service<Request> for OnceService<S, K, C>
where
    S: Service<Request> + Clone,
    K: ResourceKey<Request>,
    C: Completes<S::Response> + Clone,
{
    type Response = Once<S::Response>;
    type Error = OnceError<S::Error>;
    type Future = OnceFuture<S, Request, C>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let completion = self.layer.complete.clone();
        OnceFuture::new(match self.layer.key.key(&request) {
            Ok(Some(key)) => {
                let asked = self.layer.request_for(&key);
                let call = ServiceCall { service: self.inner.clone(), request };
                begin(asked, call, completion)
            }
            Ok(None) => {
                OnceCall::unguarded(ReadyCall::new(self.inner.clone(), request), completion)
            }
            Err(error) => OnceCall::rejected(LockError::InvalidResource(error.into()), completion),
        })
    }
}

/// Starts a request of a layer.
pub(super) fn begin<W: Work, J>(
    request: OnceRequest,
    work: W,
    completion: J,
) -> OnceCall<W, Unchecked, J> {
    let OnceRequest { redlock, resource, lock, terms, .. } = request;
    match resource {
        Ok(resource) => {
            OnceCall::new((redlock, resource, lock), terms, (work, Unchecked(())), completion)
        }
        Err(error) => OnceCall::rejected(error, completion),
    }
}
