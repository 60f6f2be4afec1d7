//! Closures as keys of layers in a router, and how far their types are inferred.

use axum::{
    Router,
    extract::Request,
    routing::{any, post},
};
use http::{Response, StatusCode};
use tower::{ServiceBuilder, ServiceExt};
use tower_http::map_request_body::MapRequestBodyLayer;
use tower_redlock::{
    OnceLayer, Redlock, RedlockLayer, key, key::RequestHead, layer::KeyError, once::RestoredBody,
    reject::Rejection,
};

fn redlock() -> Redlock {
    Redlock::embedded()
}

fn router() -> Router {
    Router::new().route("/pay", post(async || "done"))
}

fn caller<B>(request: &http::Request<B>) -> Option<String> {
    request.headers().get("x-caller")?.to_str().ok().map(str::to_owned)
}

/// Sends two requests of one caller; the second one is answered with the stored response.
async fn replays(app: Router) {
    for is_replayed in [false, true] {
        let request = Request::post("/pay")
            .header("x-caller", "alice")
            .header("idempotency-key", "k")
            .body(axum::body::Body::from("{}"))
            .unwrap();
        let answer = app.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let marks = ["idempotency-replayed", "once"];
        let marked = marks.iter().any(|mark| answer.headers().contains_key(*mark));
        assert_eq!(marked, is_replayed);
    }
}

#[tokio::test]
async fn a_scope_takes_a_function() {
    replays(router().route_layer(OnceLayer::idempotency(redlock(), "pay").scope(caller))).await;
}

#[tokio::test]
async fn a_scope_is_inferred_later() {
    let once = OnceLayer::idempotency(redlock(), "pay")
        .scope(|request: &Request<_>| request.headers().get("x-caller").map(|_| "alice"));
    replays(router().route_layer(once)).await;
}

#[tokio::test]
async fn settings_may_follow() {
    let once = OnceLayer::idempotency(redlock(), "pay")
        .scope(|request: &Request<_>| caller(request))
        .any_host()
        .complete_when(|response: &Response<_>| response.status() == 200)
        .on_reject(|rejection: Rejection<'_>| rejection.response());
    replays(router().route_layer(once)).await;
}

#[tokio::test]
async fn bodies_of_other_layers_are_inferred() {
    let once =
        OnceLayer::idempotency(redlock(), "pay").scope(|request: &Request<_>| caller(request));
    let locked = RedlockLayer::new(redlock(), |request: &Request<_>| caller(request)).http();
    let stack = ServiceBuilder::new()
        .layer(MapRequestBodyLayer::new(RestoredBody::<axum::body::Body>::untouched))
        .layer(once)
        .layer(locked.read_body_first(1 << 10));
    replays(router().layer(stack)).await;
}

#[tokio::test]
async fn head_closures_need_no_types() {
    let name =
        key::from_fn(|head| head.headers().get("x-caller")?.to_str().ok().map(str::to_owned));
    let scope = name.prefixed("caller:");
    replays(router().route_layer(OnceLayer::idempotency(redlock(), "pay").scope(scope))).await;
}

#[tokio::test]
async fn body_closures_tell_their_types() {
    let key = |head: &RequestHead<'_>, body: &[u8]| format!("{} {}", head.method(), body.len());
    replays(router().route_layer(OnceLayer::by_body(redlock(), "pay", key))).await;
    let key = key::from_body_fn(|head, body| format!("{} {}", head.method(), body.len()));
    replays(router().route_layer(OnceLayer::by_body(redlock(), "pay", key.hashed()))).await;
}

#[tokio::test]
async fn closures_report_what_is_missing() {
    let key = key::from_fn(|head| match head.headers().get("x-key") {
        Some(_) => Ok("x"),
        None => Err(KeyError::missing("there is no x-key")),
    });
    let status = async |app: Router| {
        let request: Request = Request::default();
        app.oneshot(request).await.unwrap().status()
    };
    let app = || Router::new().route("/", any(async || "ran"));

    let lenient = app().route_layer(RedlockLayer::new(redlock(), key.optional()).http());

    assert_eq!(status(lenient).await, StatusCode::OK);

    let strict = app().route_layer(RedlockLayer::new(redlock(), key).http());
    assert_eq!(status(strict).await, StatusCode::BAD_REQUEST);
}
