//! The service of a once layer.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::{
    Always, Completes, Once, OnceError, OnceFuture, OnceLayer,
    execution::run,
    outcome::OnceOutcome,
    work::{Unchecked, WorkVerdict, failed},
};
use crate::layer::{Plain, ReadyCall, ResourceKey, inner_service};

/// A service whose requests run once per key. Created by [`OnceLayer`].
///
/// It is always ready: the inner service is made ready under the lock, so that requests that wait for one
/// occupy no permit of a `ConcurrencyLimit` and no place of a `Buffer` inside. If the inner service fails to
/// become ready, its error is the request's error.
#[derive(Clone, Debug)]
pub struct OnceService<S, K, C = Always, P = Plain> {
    pub(super) inner: S,
    pub(super) layer: OnceLayer<K, C, P>,
}

impl<S, K, C, P> OnceService<S, K, C, P> {
    inner_service!();
}

impl<S, K: Clone, C: Clone, P: Clone> Layer<S> for OnceLayer<K, C, P> {
    type Service = OnceService<S, K, C, P>;

    fn layer(&self, inner: S) -> Self::Service {
        if let Err(error) = self.check() {
            crate::log::error!(%error, layer = %self.name(), "an OnceLayer rejects every request");
        }
        OnceService { inner, layer: self.clone() }
    }
}

impl<S, K, C, Request> Service<Request> for OnceService<S, K, C>
where
    S: Service<Request, Response: Send, Error: Send, Future: Send> + Clone + Send + 'static,
    K: ResourceKey<Request>,
    C: Completes<S::Response> + Clone + Send + 'static,
    Request: Send + 'static,
{
    type Response = Once<S::Response>;
    type Error = OnceError<S::Error>;
    type Future = OnceFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let key = self.layer.request_for(self.layer.key.key(&request));
        let (service, complete) = (self.inner.clone(), self.layer.complete.clone());
        OnceFuture::new(async move {
            let call = ReadyCall::new(service, request);
            let Some(key) = key? else {
                return call.await.map(Once::Ran).map_err(OnceError::Work);
            };
            let work = |_| async move {
                match call.tracked().await {
                    Ok(output) => {
                        let verdict = WorkVerdict::of(complete.completes(&output));
                        (Ok(output), verdict)
                    }
                    Err(error) => failed(error, None),
                }
            };
            run(key, Unchecked(()), work).await.map(OnceOutcome::into)
        })
    }
}
