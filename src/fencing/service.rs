//! The service.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::{
    DefaultHeader, FencingError, FencingFuture, FencingLayer, FencingServiceError, TokenSource,
    future::Fenced, memory::Visit, token::checked,
};
use crate::{
    layer::{Plain, ResourceKey, inner_service},
    resource::Resource,
};

/// A service that refuses requests with stale fencing tokens. Created by
/// [`FencingLayer`](super::FencingLayer).
///
/// It is ready when the inner service is. The token of a request counts as seen from the call,
/// whether or not its future is polled.
#[derive(Clone, Debug)]
pub struct FencingService<S, K, T = DefaultHeader, P = Plain> {
    pub(super) inner: S,
    layer: FencingLayer<K, T, P>,
}

impl<S, K, T, P> FencingService<S, K, T, P> {
    pub(super) const fn new(inner: S, layer: FencingLayer<K, T, P>) -> Self {
        Self { inner, layer }
    }

    inner_service!();

    /// Calls the inner service if the request's token is not stale.
    pub(super) fn begin<Request>(&mut self, request: Request) -> FencingFuture<S::Future, P>
    where
        S: Service<Request>,
        K: ResourceKey<Request>,
        T: TokenSource<Request>,
        P: Clone,
    {
        let protocol = self.layer.protocol.clone();
        FencingFuture { fenced: self.fenced(request), protocol }
    }

    #[cfg(feature = "http")]
    pub(super) const fn protocol(&self) -> &P {
        &self.layer.protocol
    }

    pub(super) fn fenced<Request>(&mut self, request: Request) -> Fenced<S::Future>
    where
        S: Service<Request>,
        K: ResourceKey<Request>,
        T: TokenSource<Request>,
    {
        let resource = match self.layer.key.key(&request) {
            Ok(Some(resource)) => resource,
            Ok(None) => return Fenced::unfenced(self.inner.call(request)),
            Err(error) => return self.refused(error.into(), None),
        };
        match self.admit(&request, &resource) {
            Ok(visit) => Fenced::running(self.inner.call(request), visit, resource),
            Err(error) => self.refused(error, Some(&resource)),
        }
    }

    fn refused<F>(&self, error: FencingError, resource: Option<&Resource>) -> Fenced<F> {
        error.log_refused(resource, self.layer.memory.log());
        Fenced::refused(error)
    }

    fn admit<Request>(&self, request: &Request, resource: &Resource) -> Result<Visit, FencingError>
    where
        T: TokenSource<Request>,
    {
        let token = self.layer.token.token(request).and_then(checked);
        self.layer.memory.admit(resource, token?)
    }
}

impl<S, K: Clone, T: Clone, P: Clone> Layer<S> for FencingLayer<K, T, P> {
    type Service = FencingService<S, K, T, P>;

    fn layer(&self, inner: S) -> Self::Service {
        FencingService::new(inner, self.clone())
    }
}

impl<S, K, T, Request> Service<Request> for FencingService<S, K, T>
where
    S: Service<Request>,
    K: ResourceKey<Request>,
    T: TokenSource<Request>,
{
    type Response = S::Response;
    type Error = FencingServiceError<S::Error>;
    type Future = FencingFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(FencingServiceError::Service)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.begin(request)
    }
}
