//! Requests without a key, and with an invalid one.

use axum::{Router, body::Body, routing::any};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tower_redlock::{
    LockContext, OnceLayer, key,
    once::http::Missing,
    reject::{RejectReason, Rejection},
};

use crate::client::Client;
use crate::once_http::fixture::{Fixture, Runs, hook, serve, webhooks};
use crate::once_http::idempotency::requests as idempotency;

/// Responds with the request's token.
fn app(runs: &Runs) -> Router {
    let runs = runs.clone();
    Router::new().route(
        "/hook",
        any(async move |lock: Option<LockContext>, request: Request<Body>| {
            runs.run();
            let (headers, extensions) = (request.headers(), request.extensions());
            assert_eq!(lock.is_some(), extensions.get::<LockContext>().is_some());
            let token = headers.get("x-token").map_or("none", |token| token.to_str().unwrap());
            assert_eq!(
                lock.map(|lock| lock.fencing_token().to_string()).as_deref().unwrap_or("none"),
                token
            );
            token.to_owned()
        }),
    )
}

async fn with_missing(fixture: &Fixture, missing: Missing) -> Client {
    let layer = webhooks(&fixture.at_blue).http().missing(missing).token_header("x-token");
    serve(app(&fixture.runs).route_layer(layer)).await
}

fn bare() -> Request<axum::body::Body> {
    Request::post("/hook").header("x-token", "7").body("".into()).unwrap()
}

#[tokio::test]
async fn missing_key_is_refused() {
    let fixture = Fixture::new(3);
    let client = with_missing(&fixture, Missing::default()).await;
    client.send(bare()).await.assert_bad_key();
    assert_eq!(fixture.runs.count(), 0);
}

#[tokio::test]
async fn keyless_requests_lose_forged_tokens() {
    let fixture = Fixture::new(3);
    let client = with_missing(&fixture, Missing::Run).await;
    for _ in 0..2 {
        assert_eq!(client.send(bare()).await.body, "none");
    }
    let mut forged = hook("evt_1");
    forged.headers_mut().insert("x-token", "7".parse().unwrap());
    let token = client.send(forged).await.body;
    assert_ne!(token, "none");
    assert_ne!(token, "7");
    // An invalid key is not a missing key.
    client.send(hook("")).await.assert_bad_key();
    let mut twice = hook("a");
    twice.headers_mut().append("webhook-id", "b".parse().unwrap());
    client.send(twice).await.assert_bad_key();
    client.send(hook(&"x".repeat(503))).await.assert_bad_key();
    assert_eq!(fixture.runs.count(), 3);
}

#[tokio::test]
async fn invalid_settings_are_500() {
    let fixture = Fixture::new(3);
    let set = OnceLayer::new(fixture.at_blue.clone(), "hook", |_: &Request<_>| ["a", "b"]).http();
    let client = serve(app(&fixture.runs).route_layer(set)).await;
    client.send(bare()).await.assert_bad_settings();
    let never = webhooks(&fixture.at_blue).retain(std::time::Duration::ZERO).http();
    let client = serve(app(&fixture.runs).route_layer(never)).await;
    client.send(hook("a")).await.assert_bad_settings();
    assert_eq!(fixture.runs.count(), 0);
}

#[tokio::test]
async fn on_reject_leaves_duplicates_alone() {
    let fixture = Fixture::new(3);
    let refuse = |rejection: Rejection<'_>| {
        let mut response = Response::new(Bytes::from(rejection.code()));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        let name = rejection.resource().map_or("none".into(), ToString::to_string);
        response.headers_mut().insert("x-name", name.parse().unwrap());
        assert_eq!(matches!(rejection.reason(), RejectReason::Lock(_)), name == "none");
        response
    };
    let layer = webhooks(&fixture.at_blue).http().token_header("x-token").on_reject(refuse);
    let client = serve(app(&fixture.runs).route_layer(layer)).await;
    let answer = client.send(bare()).await;
    assert_eq!((answer.code(), answer.header("x-name")), (418, Some("none")));
    assert_eq!(answer.body, "bad-key");
    let name = tower_redlock::Resource::of_once("layer:hook:evt_1").unwrap();
    let lock = fixture.at_green.lock(name).await.unwrap();
    let answer = client.send(hook("evt_1")).await;
    assert_eq!((answer.code(), answer.header("x-name")), (418, Some("once:layer:hook:evt_1")));
    assert_eq!(answer.body, "in-progress");
    drop(lock);
    assert_eq!(client.send(hook("evt_1")).await.code(), 200);
    client.send(hook("evt_1")).await.assert_duplicate();
}

/// The layer's name separates the deliveries of senders.
#[tokio::test]
async fn each_sender_has_its_header() {
    let fixture = Fixture::new(3);
    for header in ["webhook-id", "x-github-delivery", "x-shopify-event-id"] {
        let once = OnceLayer::new(fixture.at_blue.clone(), header, key::header(header));
        let layer = once.http().token_header("x-token");
        let client = serve(app(&fixture.runs).route_layer(layer)).await;
        let before = fixture.runs.count();
        for again in [false, true] {
            let delivery = Request::post("/hook").header(header, "72d3162e-cc78-11e3-81ab");
            let answer = client.send(delivery.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.status, 200);
            assert_eq!(answer.headers.get("once").is_some_and(|it| it == "duplicate"), again);
        }
        assert_eq!(fixture.runs.count(), before + 1, "{header}");
    }
}

/// The HTTP status of gRPC calls is always 200.
#[tokio::test]
async fn keyed_grpc_requests_are_refused() {
    let fixture = Fixture::new(3);
    let as_grpc = |mut request: Request<Body>, kind: &'static str| {
        let kind = http::HeaderValue::from_static(kind);
        request.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        request
    };
    let webhooks = with_missing(&fixture, Missing::Run).await;
    let layer = OnceLayer::by_body(fixture.at_blue.clone(), "event", key::json_pointer("/id"));
    let events = serve(app(&fixture.runs).route_layer(layer)).await;
    let payments =
        serve(app(&fixture.runs).route_layer(idempotency::layer(&fixture.at_blue))).await;
    let event = || Request::post("/hook").body(Body::from(r#"{"id":"evt_1"}"#)).unwrap();
    let payment = || {
        let post = Request::post("/hook").header("x-caller", "alice");
        post.header("idempotency-key", "k").body(Body::empty()).unwrap()
    };
    for kind in ["application/grpc", "application/grpc+proto", "Application/gRPC-Web"] {
        let answers = [
            webhooks.send(as_grpc(hook("evt_1"), kind)).await,
            events.send(as_grpc(event(), kind)).await,
            payments.send(as_grpc(payment(), kind)).await,
        ];
        for answer in answers {
            answer.assert_bad_settings();
        }
        webhooks.send(as_grpc(bare(), kind)).await;
    }
    assert_eq!(fixture.runs.count(), 3, "those without a key");
    assert_eq!(webhooks.send(as_grpc(hook("evt_1"), "application/json")).await.code(), 200);
}
