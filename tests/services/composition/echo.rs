//! A service for requests of any body, and the bounds that a server puts on a stack.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use axum::{BoxError, body::Body};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tower::Service;
use tower_redlock::{
    OnceLayer, Redlock, RedlockLayer,
    key::{self, Header, Key, MethodAndPath},
    layer::{Plain, grpc::RedlockGrpc, http::RedlockHttp},
    once::{self, Always, http::Scope},
};

/// Responds with "done", whatever the request's body is.
#[derive(Clone, Debug)]
pub(crate) struct Echo;

impl<B> Service<Request<B>> for Echo {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        ready(Ok(Response::new(Full::from("done"))))
    }
}

/// The bounds that hyper and axum put on a service, except `Clone`.
pub(crate) fn is_served<S, A>(service: S) -> S
where
    S: Service<Request<Body>, Response = Response<A>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    A: http_body::Body<Data = Bytes> + Send + 'static,
    A::Error: Into<BoxError>,
{
    service
}

type ByPath = Key<MethodAndPath>;

pub(crate) fn plain() -> RedlockLayer<ByPath, Plain> {
    RedlockLayer::new(Redlock::embedded(), key::method_and_path())
}

pub(crate) fn http() -> RedlockLayer<ByPath, RedlockHttp> {
    plain().http()
}

pub(crate) fn grpc() -> RedlockLayer<ByPath, RedlockGrpc> {
    plain().grpc()
}

pub(crate) fn webhooks() -> OnceLayer<Key<Header>, Always, once::http::OnceHttp> {
    OnceLayer::new(Redlock::embedded(), "webhooks", key::header("webhook-id")).http()
}

pub(crate) fn calls() -> OnceLayer<Key<Header>, Always, once::grpc::OnceGrpc> {
    OnceLayer::new(Redlock::embedded(), "calls", key::header("request-id")).grpc()
}

pub(crate) fn payments() -> OnceLayer<
    Scope,
    Always,
    once::http::OnceHttp<tower_redlock::reject::DefaultResponse, once::http::Idempotency>,
> {
    OnceLayer::idempotency(Redlock::embedded(), "payments").scope(Scope::none())
}
