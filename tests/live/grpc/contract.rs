//! The requirements on the wrapped service, and the guarantees to it.

use std::{
    cell::Cell,
    future::{Ready, ready},
    marker::PhantomData,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use http::{Request, Response};
use tonic::{Status, body::Body};
use tower::{Layer, Service, util::BoxCloneSyncService};
use tower_redlock::{
    Redlock, RedlockLayer,
    layer::{
        RedlockFuture, RedlockService,
        grpc::{GrpcBody, RedlockGrpc},
    },
    reject::Rejection,
};

use crate::grpc::site::{Key, order_id};

type Inner = BoxCloneSyncService<Request<Body>, Response<Body>, std::convert::Infallible>;
type Answer = fn(Rejection<'_>) -> Status;

const fn shared<T: Clone + Send + Sync + std::fmt::Debug + 'static>() {}
const fn sent<T: Send + std::fmt::Debug + 'static>() {}

/// The bounds of tonic's `Server`.
#[test]
fn types_are_cloned_shared_and_sent() {
    shared::<RedlockGrpc>();
    shared::<RedlockLayer<Key, RedlockGrpc>>();
    shared::<RedlockService<Inner, Key, RedlockGrpc>>();
    sent::<RedlockFuture<Inner, Request<Body>, RedlockGrpc<Answer>>>();
    sent::<GrpcBody<Body>>();
}

/// Neither `Send` nor `Sync`, with any error and any body; readiness is set by the test.
#[derive(Clone)]
struct Local<'a>(Rc<Cell<Poll<Result<(), Broken<'a>>>>>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Broken<'a>(PhantomData<&'a str>);

struct Errand;

impl<'a> Service<Request<Errand>> for Local<'a> {
    type Response = Response<String>;
    type Error = Broken<'a>;
    type Future = Ready<Result<Response<String>, Broken<'a>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken<'a>>> {
        self.0.get()
    }

    fn call(&mut self, _: Request<Errand>) -> Self::Future {
        ready(Ok(Response::new("done".to_owned())))
    }
}

#[tokio::test]
async fn inner_readiness_is_awaited_without_bounds() {
    let broken = Broken(PhantomData::<&str>);
    let mood = Rc::new(Cell::new(Poll::Pending));
    let layer = RedlockLayer::new(Redlock::embedded(), order_id::<Errand>).grpc();
    let mut service = layer.layer(Local(Rc::clone(&mood)));
    let mut cx = Context::from_waker(Waker::noop());

    let errand = || {
        let mut request = Request::new(Errand);
        request.headers_mut().insert("order-id", "7".parse().unwrap());
        request
    };

    assert_eq!(service.poll_ready(&mut cx), Poll::Ready(Ok(())), "always");

    let mut call = Box::pin(service.call(errand()));
    assert!(call.as_mut().poll(&mut cx).is_pending());

    mood.set(Poll::Ready(Ok(())));
    let response = call.await.unwrap();
    assert!(response.headers().get("grpc-status").is_none(), "it ran");

    drop(response);
    mood.set(Poll::Ready(Err(broken)));
    assert!(matches!(service.call(errand()).await, Err(error) if error == broken));
}

/// A caller can't set the token, neither under a lock nor without one.
#[tokio::test]
async fn token_comes_from_layer_alone() {
    let seen = |request: Request<Option<&'static str>>| {
        let token = request.headers().get("fencing-token").map(|token| token.to_str().unwrap());
        ready(Ok::<_, std::convert::Infallible>(Response::new(token.unwrap_or("none").to_owned())))
    };
    let key = |request: &Request<Option<&'static str>>| request.body().map(str::to_owned);
    let layer = RedlockLayer::new(Redlock::embedded(), key).grpc().token_header("fencing-token");
    let mut service = layer.layer(tower::service_fn(seen));

    let mut told = async |key| {
        let request = Request::builder().header("fencing-token", "999").body(key).unwrap();
        let response = service.call(request).await.unwrap();
        http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes()
    };

    assert_eq!(&told(None).await[..], b"none");

    let token = told(Some("7")).await;
    assert!(token.len() > 10, "{token:?}");
}
