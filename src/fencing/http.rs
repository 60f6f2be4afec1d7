//! [`FencingLayer`] over HTTP: errors are responses.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{FencingFuture, FencingLayer, FencingService, TokenSource};
use crate::{
    layer::{ResourceKey, http::HttpBody},
    reject::{DefaultResponse, OnReject, Rejection},
};

/// The settings of a [`FencingLayer`] over HTTP, where errors are responses. Created by
/// [`FencingLayer::http`].
#[derive(Clone, Copy, Debug)]
pub struct FencingHttp<R = DefaultResponse> {
    on_reject: R,
}

impl<K, T> FencingLayer<K, T> {
    /// Makes errors responses, with problem bodies after RFC 9457:
    ///
    /// | what happened | status | `code` | `outcome` |
    /// |---|---|---|---|
    /// | a newer token was seen before | 412 | `stale-token` | `not-run` |
    /// | a newer token arrived while it ran | 412 | `stale-token` | `unknown` |
    /// | no token | 428 | `missing-token` | `not-run` |
    /// | a token that can't be read | 400 | `bad-token` | `not-run` |
    /// | no usable key | 400 | `bad-key` | `not-run` |
    ///
    /// No response contains the newest token. The outcome is marked for outer layers by
    /// [`RequestOutcome`](crate::reject::RequestOutcome). The error type remains the service's own.
    pub fn http(self) -> FencingLayer<K, T, FencingHttp> {
        self.with_protocol(FencingHttp { on_reject: DefaultResponse::default() })
    }
}

impl<K, T, R> FencingLayer<K, T, FencingHttp<R>> {
    /// Sets the closure that makes the responses to rejected requests. Default: [`Rejection::response`].
    pub fn on_reject<G>(self, respond: G) -> FencingLayer<K, T, FencingHttp<G>>
    where
        G: Fn(Rejection<'_>) -> Response<Bytes>,
    {
        self.with_protocol(FencingHttp { on_reject: respond })
    }
}

impl<S, K, T, R, B, A> Service<Request<B>> for FencingService<S, K, T, FencingHttp<R>>
where
    S: Service<Request<B>, Response = Response<A>>,
    K: ResourceKey<Request<B>>,
    T: TokenSource<Request<B>>,
    R: OnReject<Response<Bytes>> + Clone,
    A: Body,
{
    type Response = Response<HttpBody<A>>;
    type Error = S::Error;
    type Future = FencingFuture<S::Future, FencingHttp<R>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.begin(request)
    }
}

impl<F, R, A, E> Future for FencingFuture<F, FencingHttp<R>>
where
    F: Future<Output = Result<Response<A>, E>>,
    R: OnReject<Response<Bytes>>,
    A: Body,
{
    type Output = Result<Response<HttpBody<A>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(match ready!(this.fenced.poll(cx)) {
            Ok(result) => {
                result.map(|response| response.map(|body| HttpBody::of_service(body, None)))
            }
            Err(error) => {
                let on_reject = &this.protocol.on_reject;
                let (response, outcome) = error.reject(|rejection| rejection.answer(on_reject));
                Ok(outcome.mark(response.map(HttpBody::of_bytes)))
            }
        })
    }
}
