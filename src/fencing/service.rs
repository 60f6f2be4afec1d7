use std::task::{Context, Poll};

use tower_service::Service;

use super::{
    DefaultHeader, Error, FencingError, FencingLayer, Plain, ResponseFuture, TokenSource,
    call::Fenced, memory::Visit, token::checked,
};
use crate::{layer::ResourceKey, resource::Resource};

/// A service that takes no requests with stale fencing tokens. Made by
/// [`FencingLayer`](super::FencingLayer).
///
/// It is ready when the inner service is. The token of a request counts as seen from the call,
/// whether or not its future is polled.
#[derive(Clone, Debug)]
pub struct FencingService<S, K, T = DefaultHeader, F = Plain> {
    pub(super) inner: S,
    layer: FencingLayer<K, T, F>,
}

impl<S, K, T, F> FencingService<S, K, T, F> {
    pub(super) const fn new(inner: S, layer: FencingLayer<K, T, F>) -> Self {
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

    /// Calls the inner service if the request's token is not stale.
    pub(super) fn begin<Request>(&mut self, request: Request) -> Fenced<S::Future>
    where
        S: Service<Request>,
        K: ResourceKey<Request>,
        T: TokenSource<Request>,
    {
        let resource = match self.layer.key.key(&request) {
            Ok(Some(resource)) => resource,
            Ok(None) => return Fenced::unfenced(self.inner.call(request)),
            Err(error) => return Fenced::refused(error.into(), None),
        };
        match self.admit(&request, &resource) {
            Ok(visit) => Fenced::running(self.inner.call(request), visit, resource),
            Err(error) => Fenced::refused(error, Some(&resource)),
        }
    }

    fn admit<Request>(&self, request: &Request, resource: &Resource) -> Result<Visit, FencingError>
    where
        T: TokenSource<Request>,
    {
        let token = self.layer.token.token(request).and_then(checked);
        self.layer.memory.admit(resource, token?)
    }
}

impl<S, K, T, Request> Service<Request> for FencingService<S, K, T>
where
    S: Service<Request>,
    K: ResourceKey<Request>,
    T: TokenSource<Request>,
{
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Error::Service)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        ResponseFuture::new(self.begin(request))
    }
}
