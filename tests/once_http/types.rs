//! What layers and services ask of what they wrap: nothing that they don't need.

use std::{cell::Cell, convert::Infallible, rc::Rc};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::{
    OnceLayer, Redlock,
    once::{Intact, Scope},
};

type Body = Full<Bytes>;

fn post() -> Request<Body> {
    let post = Request::post("/").header("idempotency-key", "k");
    post.body(Full::from("body")).unwrap()
}

#[tokio::test]
async fn keys_and_services_that_stay_on_their_thread_are_welcome() {
    let (name, calls) = (Rc::new("x".to_owned()), Rc::new(Cell::new(0)));
    let call = |calls: &Rc<Cell<u32>>| {
        calls.set(calls.get() + 1);
        async { Ok::<_, Infallible>(Response::new(Body::from("done"))) }
    };
    let (seen, redlock) = (Rc::clone(&calls), Redlock::embedded());
    let of_head = service_fn(move |_: Request<Body>| call(&seen));
    let seen = Rc::clone(&calls);
    let of_body = service_fn(move |_: Request<Intact<Body>>| call(&seen));

    let key = Rc::clone(&name);
    let key = move |_: &Request<Body>| (*key).clone();
    let layer = OnceLayer::new(redlock.clone(), key).http();
    assert_eq!(layer.layer(of_head).oneshot(post()).await.unwrap().status(), 200);
    let key =
        move |_: &tower_redlock::key::RequestHead<'_>, body: &[u8]| format!("{name}{}", body.len());
    let layer = OnceLayer::by_body(redlock.clone(), key);
    assert_eq!(layer.layer(of_body.clone()).oneshot(post()).await.unwrap().status(), 200);
    let layer = OnceLayer::idempotency(redlock).scope(Scope::none());
    let answer = layer.layer(of_body).oneshot(post()).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
    assert_eq!(calls.get(), 3);
}

#[tokio::test]
async fn errors_of_the_service_stay_what_they_were_and_leave_the_key_free() {
    let (redlock, calls) = (Redlock::embedded(), Rc::new(Cell::new(0)));
    let fails = |calls: &Rc<Cell<u32>>| {
        calls.set(calls.get() + 1);
        async { Err::<Response<Body>, _>("broken") }
    };
    let seen = Rc::clone(&calls);
    let of_head = service_fn(move |_: Request<Body>| fails(&seen));
    let mut of_head = OnceLayer::new(redlock.clone(), |_: &Request<_>| "x").http().layer(of_head);
    let seen = Rc::clone(&calls);
    let of_body = service_fn(move |_: Request<Intact<Body>>| fails(&seen));
    let mut of_body = OnceLayer::idempotency(redlock).scope(Scope::none()).layer(of_body);
    for _ in 0..2 {
        assert_eq!(of_head.ready().await.unwrap().call(post()).await.unwrap_err(), "broken");
        assert_eq!(of_body.ready().await.unwrap().call(post()).await.unwrap_err(), "broken");
    }
    assert_eq!(calls.get(), 4);
}
