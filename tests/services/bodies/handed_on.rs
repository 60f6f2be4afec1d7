//! Every kind of service gets the whole body inside a layer that has read it.

use std::convert::Infallible;

use axum::{Router, body::Body, extract::Request, middleware, routing::post};
use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use tower_redlock::{
    key::{self, BodyKey, RequestHead},
    once::{Fingerprint, RestoredBody},
};

use crate::bodies::{
    layer::Keyed,
    site::{send, serve},
};

const LIMIT: usize = 100_000;

fn keyed() -> Keyed<impl BodyKey + Clone + Send + Sync + 'static> {
    Keyed { key: key::json_pointer("/id").prefixed("evt:"), limit: LIMIT }
}

/// `{"id": 7, "fill": "xxx…"}` with a length of `len` bytes, in pieces.
fn event(len: usize) -> Vec<Bytes> {
    let start = r#"{"id": 7, "fill": ""#;
    let body = format!("{start}{}\"}}", "x".repeat(len - start.len() - 2));
    assert_eq!(body.len(), len);
    body.as_bytes().chunks(30_000).map(Bytes::copy_from_slice).collect()
}

/// What a handler sees: the key, the body's length, and the trailer.
async fn tell<B>(request: http::Request<B>) -> String
where
    B: http_body::Body<Data = Bytes, Error: std::fmt::Debug>,
{
    let (parts, body) = request.into_parts();
    let hint = body.size_hint().exact();
    let body = body.collect().await.expect("a whole body");
    let sum = body.trailers().map(|trailers| trailers["x-sum"].clone());
    let data = body.to_bytes();
    let print = Fingerprint::of(&RequestHead::from(&parts), &data).to_string();
    assert_eq!(parts.headers["x-print"], print, "the body is another one");
    format!("{} {hint:?} {} {sum:?}", parts.headers["x-key"].to_str().unwrap(), data.len())
}

fn told(len: usize) -> String {
    format!("evt:7 None {len} Some(\"7\")")
}

async fn assert_hands_on(addr: std::net::SocketAddr) {
    let answer = send(addr, event(LIMIT)).await;
    assert_eq!((answer.status, &*answer.text), (200, told(LIMIT).as_bytes()));
}

#[tokio::test]
async fn axum_takes_it_everywhere() {
    async fn handler(request: Request) -> String {
        tell(request).await
    }
    async fn passed(request: Request, next: middleware::Next) -> axum::response::Response {
        next.run(request).await
    }
    let routes = || Router::new().route("/hook", post(handler));
    let method = post(handler).layer(keyed());

    for router in [
        routes().route_layer(keyed()),
        routes().layer(keyed()),
        routes().layer(middleware::from_fn(passed)).layer(keyed()),
        routes().layer(ServiceBuilder::new().layer(middleware::from_fn(passed)).layer(keyed())),
        Router::new().route("/hook", method),
    ] {
        assert_hands_on(serve(router).await).await;
    }
}

#[tokio::test]
async fn hyper_body_service_takes_it() {
    let service = service_fn(|request: http::Request<RestoredBody<Incoming>>| async {
        Ok::<_, Infallible>(Response::new(Full::from(tell(request).await)))
    });
    assert_hands_on(serve(ServiceBuilder::new().layer(keyed()).service(service)).await).await;
}

#[tokio::test]
async fn fixed_body_service_needs_a_map() {
    let service = service_fn(|request: Request| async {
        Ok::<_, Infallible>(Response::new(Full::from(tell(request).await)))
    });
    let service = ServiceBuilder::new()
        .layer(keyed())
        .map_request(|request: http::Request<RestoredBody<Incoming>>| {
            request.map(axum::body::Body::new)
        })
        .service(service);
    assert_hands_on(serve(service).await).await;
}

#[tokio::test]
async fn invalid_bodies_never_reach_the_handler() {
    async fn handler() -> &'static str {
        panic!("it ran");
    }
    let app = Router::new().route("/hook", post(handler)).route_layer(keyed());
    let answer = send(serve(app.clone()).await, event(LIMIT + 1)).await;
    let text = "the body is too large: at most 100000 bytes are accepted";
    assert_eq!((answer.status, &*answer.text), (413, text.as_bytes()));
    let answer = send(serve(app.clone()).await, vec!["{".into()]).await;
    let text = "the body is not JSON: see line 1, column 1";
    assert_eq!((answer.status, &*answer.text), (400, text.as_bytes()));

    let announced = Request::post("/hook").body(Body::from("x".repeat(LIMIT + 1))).unwrap();
    assert_eq!(app.oneshot(announced).await.unwrap().status(), 413);
}
