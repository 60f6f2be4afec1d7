//! The services of webhooks: with the key in the request's head, and in its body.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    ByBody, CompletesHttp, OnceHttp,
    call::{HttpCall, reject_http},
    key::{read_body, refuse_grpc},
};
use crate::{
    error::LockError,
    key::{BodyKey, RequestHead},
    layer::{KeyError, ResourceKey, http::HttpBody},
    once::{OnceFuture, OnceLayer, OnceService, ReadBody, RestoredBody, claim::KeyRequest},
    reject::{OnReject, RejectReason},
    resource::Resource,
};

impl<K, C, R, M> OnceLayer<K, C, OnceHttp<R, M>> {
    /// Turns what was found in a webhook into the request for its key.
    fn webhook_key(
        &self,
        headers: &HeaderMap,
        found: Result<Option<Resource>, KeyError>,
    ) -> Result<Option<KeyRequest>, LockError> {
        let found = refuse_grpc(headers, self.protocol.missing.settle(found));
        self.request_for(found)
    }
}

impl<S, K, C, R, B, A> Service<Request<B>> for OnceService<S, K, C, OnceHttp<R>>
where
    S: Service<Request<B>, Response = Response<A>, Error: Send, Future: Send>,
    S: Clone + Send + 'static,
    K: ResourceKey<Request<B>>,
    C: CompletesHttp<A> + Clone + Send + 'static,
    R: OnReject<Response<Bytes>> + Clone + Send + 'static,
    B: Send + 'static,
    A: Body + Send + 'static,
{
    type Response = Response<HttpBody<A>>;
    type Error = S::Error;
    type Future = OnceFuture<Self::Response, S::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        self.layer.protocol.token_header.strip(request.headers_mut());
        let key = self.layer.webhook_key(request.headers(), self.layer.key.key(&request));
        OnceFuture::new(HttpCall::new(self).webhook(key, request))
    }
}

impl<S, K, C, R, B, A> Service<Request<B>> for OnceService<S, K, C, OnceHttp<R, ByBody>>
where
    S: Service<Request<RestoredBody<B>>, Response = Response<A>, Error: Send, Future: Send>,
    S: Clone + Send + 'static,
    K: BodyKey + Clone + Send + 'static,
    C: CompletesHttp<A> + Clone + Send + 'static,
    R: OnReject<Response<Bytes>> + Clone + Send + 'static,
    B: Body<Error: Send> + Send + 'static,
    A: Body + Send + 'static,
{
    type Response = Response<HttpBody<A>>;
    type Error = S::Error;
    type Future = OnceFuture<Self::Response, S::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let service = self.clone();
        let protocol = &service.layer.protocol;
        protocol.token_header.strip(request.headers_mut());
        let (parts, body) = request.into_parts();
        let ByBody { limit, timeout } = protocol.mode;
        let read = ReadBody::new(&parts.headers, body, limit);
        let read = read.for_layer(&service.layer.redlock, timeout);
        OnceFuture::new(async move {
            let body = read_body(read).await;
            let layer = &service.layer;
            let (data, body) = match body {
                Ok(body) => body,
                Err(error) => {
                    let reason = RejectReason::Lock(&error);
                    let answer = reject_http(&layer.protocol.rejecter, reason, None);
                    return Ok(answer.map(HttpBody::of_bytes));
                }
            };
            let found = layer.key.body_key(&RequestHead::from(&parts), &data);
            // The memory is free once the service has read the body.
            drop(data);
            let key = layer.webhook_key(&parts.headers, found);
            let call = HttpCall::new(&service);
            drop(service);
            call.webhook(key, Request::from_parts(parts, body)).await
        })
    }
}
