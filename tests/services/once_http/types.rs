//! What layers and services ask of what they wrap: nothing that they don't need. Services may have to
//! go on without their caller, on another thread.

use std::{convert::Infallible, rc::Rc};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{Layer, ServiceExt, service_fn};
use tower_redlock::{
    OnceLayer, Redlock,
    once::{RestoredBody, http::Scope},
};

use crate::once_http::fixture::Runs;

type Body = Full<Bytes>;

fn post() -> Request<Body> {
    let post = Request::post("/").header("idempotency-key", "k");
    post.body(Full::from("body")).unwrap()
}

/// A key in the head is found in the caller's task. A key in the body is found after the body was read, so
/// it moves to other threads with the request.
#[tokio::test]
async fn thread_bound_keys_compile() {
    let (name, calls) = (Rc::new("x".to_owned()), Runs::default());
    let call = |calls: &Runs| {
        calls.run();
        async { Ok::<_, Infallible>(Response::new(Body::from("done"))) }
    };
    let (seen, redlock) = (calls.clone(), Redlock::embedded());
    let of_head = service_fn(move |_: Request<Body>| call(&seen));
    let seen = calls.clone();
    let of_body = service_fn(move |_: Request<RestoredBody<Body>>| call(&seen));

    let key = move |_: &Request<Body>| (*name).clone();
    let layer = OnceLayer::new(redlock.clone(), "hook", key).http();
    assert_eq!(layer.layer(of_head).oneshot(post()).await.unwrap().status(), 200);
    let key = |_: &tower_redlock::key::RequestHead<'_>, body: &[u8]| format!("x{}", body.len());
    let layer = OnceLayer::by_body(redlock.clone(), "hook", key);
    assert_eq!(layer.layer(of_body.clone()).oneshot(post()).await.unwrap().status(), 200);
    let layer = OnceLayer::idempotency(redlock, "pay").scope(Scope::none());
    let answer = layer.layer(of_body).oneshot(post()).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
    assert_eq!(calls.count(), 3);
}
