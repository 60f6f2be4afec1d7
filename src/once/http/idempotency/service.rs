//! The service of requests with an `Idempotency-Key`.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    Idempotency, IdempotencyFuture,
    future::PendingRequest,
    host::authority,
    key::{name, of_scope},
};
use crate::{
    key::{self, RequestHead},
    layer::{KeyError, ResourceKey},
    once::{
        Intact, OnceService, ReadBody, ResponseStore,
        http::{CompletesHttp, OnceHttp, completion::CompletionRules, key::refuse_grpc},
    },
    reject::OnReject,
    resource::Resource,
};

impl<S, K, C, R, St> OnceService<S, K, C, OnceHttp<R, Idempotency<St>>> {
    /// Returns the name of a request's record; `None` for a request that needs no key.
    fn record<B>(&self, request: &Request<B>) -> Result<Option<Resource>, KeyError>
    where
        K: ResourceKey<Request<B>>,
    {
        if !self.layer.protocol.mode.applies_to(request.method()) {
            return Ok(None);
        }
        let Some(scope) = self.layer.key.key(request)? else { return Ok(None) };
        let scope = of_scope(&scope)?;
        let key = key::idempotency_key().key(request);
        let Some(key) = self.layer.protocol.missing.settle(key)? else { return Ok(None) };
        let host = if self.layer.protocol.mode.any_host {
            None
        } else {
            Some(authority(&RequestHead::from(request))?)
        };
        let name = name(self.layer.name(), host.as_deref(), scope, &key)?;
        refuse_grpc(request.headers(), Ok(Some(name)))
    }
}

impl<S, K, C, R, St, B, A> Service<Request<B>>
    for OnceService<S, K, C, OnceHttp<R, Idempotency<St>>>
where
    S: Service<Request<Intact<B>>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    K: ResourceKey<Request<B>>,
    C: CompletesHttp<A> + Clone + Send + 'static,
    R: OnReject<Response<Bytes>> + Clone,
    B: Body<Error: Send> + Send + 'static,
    A: Body<Error: Send> + Send + 'static,
    St: ResponseStore,
{
    type Response = Response<Intact<A>>;
    type Error = S::Error;
    type Future = IdempotencyFuture<S, B, A, C, R, St>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        self.layer.protocol.token_header.strip(request.headers_mut());
        let found = self.record(&request);
        let protocol = &self.layer.protocol;
        let on_reject = protocol.on_reject.clone();
        match protocol.server_errors.check_with(found) {
            Ok(Some(name)) => {
                let (token_header, mode) = (protocol.token_header.clone(), protocol.mode.clone());
                let (parts, body) = request.into_parts();
                let read = ReadBody::new(&parts.headers, body, mode.body_limit)
                    .for_layer(&self.layer.redlock, mode.body_timeout);
                let start = PendingRequest {
                    parts,
                    key: Arc::from(name.to_string()),
                    asked: self.layer.request(Ok(name)),
                    rules: CompletionRules {
                        complete: self.layer.complete.clone(),
                        server_errors: protocol.server_errors,
                    },
                    token_header,
                    layer: Arc::clone(self.layer.name()),
                    detached: protocol.detached,
                    mode,
                    service: self.inner.clone(),
                };
                IdempotencyFuture::reading(read, start, on_reject)
            }
            Ok(None) => {
                let request = request.map(Intact::untouched);
                IdempotencyFuture::unguarded(self.inner.clone(), request, on_reject)
            }
            Err(error) => IdempotencyFuture::rejected(error, on_reject),
        }
    }
}
