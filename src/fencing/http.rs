//! [`FencingLayer`] over HTTP: errors are responses.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{FencingLayer, FencingService, TokenSource, future::Fenced};
use crate::{
    layer::{
        ResourceKey,
        http::{ConnectionUse, HttpBody},
    },
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
    /// | the response upgrades the connection: 101, or a 2xx to CONNECT | 500 | `upgrade-unguarded` | `unknown` |
    ///
    /// An upgrade is refused, as no newer token could end its session, and logged at ERROR. Let requests
    /// that upgrade have no key.
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
    type Future = FencingHttpFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let connection = ConnectionUse::of(&request);
        let on_reject = self.protocol().on_reject.clone();
        FencingHttpFuture { fenced: self.fenced(request), on_reject, connection }
    }
}

/// The future of a request through a [`FencingLayer`] over HTTP. `F` is the future of the service.
///
/// # Cancel safety
///
/// Dropping it drops the inner future. The token counts as seen nevertheless.
///
/// # Panics
///
/// If polled again after it was ready, or if the service panics.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct FencingHttpFuture<F, R = DefaultResponse> {
    #[pin]
    fenced: Fenced<F>,
    on_reject: R,
    connection: ConnectionUse,
}

/// Why a response that upgrades the connection is refused.
const UPGRADED: &str = "a newer fencing token could not stop the session on the connection; let requests \
                        that upgrade have no key, and check their tokens in the session";

impl<F, R, A, E> Future for FencingHttpFuture<F, R>
where
    F: Future<Output = Result<Response<A>, E>>,
    R: OnReject<Response<Bytes>>,
    A: Body,
{
    type Output = Result<Response<HttpBody<A>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let fenced = this.fenced.as_mut();
        let is_fenced = fenced.is_running();
        Poll::Ready(match ready!(fenced.poll(cx)) {
            Ok(Ok(response)) if is_fenced => {
                let response = this.connection.without_upgrade(response, None, UPGRADED);
                Ok(response.map_or_else(|refused| this.connection.refuse(refused), of_service))
            }
            Ok(result) => result.map(of_service),
            Err(error) => {
                let on_reject = this.on_reject;
                let answer = error.reject(|rejection| rejection.answer(on_reject));
                Ok(this.connection.answer(error.has_begun(), answer))
            }
        })
    }
}

fn of_service<A: Body>(response: Response<A>) -> Response<HttpBody<A>> {
    response.map(|body| HttpBody::of_service(body, None))
}

impl<F, R> fmt::Debug for FencingHttpFuture<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.fenced.name();
        f.debug_struct("FencingHttpFuture").field("state", &state).finish_non_exhaustive()
    }
}
