//! A layer is ready when its service is.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tower::{Layer, Service};
use tower_redlock::{OnceLayer, Redlock, RedlockLayer, key};

type Body = Full<Bytes>;

/// A service that is never ready.
#[derive(Clone)]
struct Busy;

impl<B> Service<Request<B>> for Busy {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Pending
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        ready(Ok(Response::default()))
    }
}

fn is_ready(mut service: impl Service<Request<Body>>) -> bool {
    service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn busy_service_makes_layers_busy() {
    let redlock = Redlock::embedded();
    let by_head = OnceLayer::new(redlock.clone(), "head", key::header("webhook-id")).http();
    assert!(!is_ready(by_head.layer(Busy)));
    let by_body = OnceLayer::by_body(redlock.clone(), "body", key::json_pointer("/id"));
    assert!(!is_ready(by_body.layer(Busy)));
    let layer = OnceLayer::idempotency(redlock.clone(), "pay").scope(key::header("x-caller"));
    assert!(!is_ready(layer.layer(Busy)));
    let read_first = RedlockLayer::new(redlock, key::header("x-id")).http().read_body_first(9);
    assert!(!is_ready(read_first.layer(Busy)));
}
