//! All positions in which axum accepts a layer, and the extractor.

use std::{convert::Infallible, time::Duration};

use axum::{
    BoxError, Router,
    body::{Body, to_bytes},
    error_handling::HandleErrorLayer,
    extract::{Request, State},
    http::{Method, StatusCode},
    routing::{any, post},
};
use tower::{ServiceBuilder, ServiceExt};
use tower_redlock::{LockContext, Redlock, RedlockLayer, layer};

use crate::http::live::client::Answer;

/// The path, except for reads.
fn path(request: &Request) -> Option<String> {
    (request.method() != Method::GET).then(|| request.uri().path().to_owned())
}

fn layer(redlock: &Redlock) -> RedlockLayer<fn(&Request) -> Option<String>> {
    RedlockLayer::new(redlock.clone(), path)
}

/// Responds whether its lock is held, and by which owner.
async fn show(State(redlock): State<Redlock>, lock: LockContext) -> String {
    lock.ensure_valid().unwrap();
    let again = redlock.lock(lock.resource()).wait(Duration::ZERO).await;
    assert!(again.is_err(), "{again:?}");
    format!("{} {}", lock.resource(), lock.fencing_token())
}

async fn perhaps(lock: Option<LockContext>) -> String {
    lock.map_or("unguarded".into(), |lock| lock.resource().to_string())
}

fn request(method: Method, path: &str) -> Request {
    Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
}

async fn text(app: &Router, method: Method, path: &str) -> (StatusCode, String) {
    let answer = Answer::of(app.clone(), request(method, path)).await;
    (answer.status, answer.text)
}

#[track_caller]
fn assert_shown((status, text): (StatusCode, String), name: &str) {
    assert_eq!(status, StatusCode::OK, "{text}");
    let (shown, token) = text.split_once(' ').expect("a name and a token");
    assert_eq!(shown, name);
    assert!(token.parse::<u64>().unwrap() > 0);
}

async fn refusal(error: layer::GuardError<Infallible>) -> (StatusCode, String) {
    (StatusCode::CONFLICT, error.to_string())
}

#[tokio::test]
async fn every_placement_guards_its_routes() {
    let redlock = Redlock::embedded();
    let app = || Router::new().route("/a", any(show)).route("/b", any(show));
    let apps: [(&str, Router<Redlock>); 7] = [
        ("Router::layer", app().layer(layer(&redlock).http())),
        ("Router::route_layer", app().route_layer(layer(&redlock).http())),
        ("MethodRouter::layer", Router::new().route("/b", any(show).layer(layer(&redlock).http()))),
        (
            "MethodRouter::route_layer",
            Router::new().route("/b", post(show).route_layer(layer(&redlock).http())),
        ),
        ("ServiceBuilder", app().layer(ServiceBuilder::new().layer(layer(&redlock).http()))),
        (
            "HandleErrorLayer around a plain layer",
            app().layer(
                ServiceBuilder::new().layer(HandleErrorLayer::new(refusal)).layer(layer(&redlock)),
            ),
        ),
        (
            "HandleErrorLayer around a timeout",
            app().layer(
                ServiceBuilder::new()
                    .layer(HandleErrorLayer::new(async |error: BoxError| {
                        (StatusCode::GATEWAY_TIMEOUT, error.to_string())
                    }))
                    .timeout(Duration::from_secs(100))
                    .layer(layer(&redlock).http()),
            ),
        ),
    ];

    for (way, app) in apps {
        println!("{way}");
        let app = app.with_state(redlock.clone());
        assert_shown(text(&app, Method::POST, "/b").await, "/b");
        let lock = redlock.lock("/b").await.expect("given back");
        let (status, body) = text(&app, Method::POST, "/b").await;
        assert_eq!(status, StatusCode::CONFLICT, "{body}");
        lock.release().await.unwrap();
    }
}

#[tokio::test]
async fn extractor_without_lock_explains() {
    let redlock = Redlock::embedded();
    let app = Router::new()
        .route("/a", any(show))
        .layer(layer(&redlock).http())
        .route("/outside", any(show))
        .with_state(redlock);

    for (method, path) in [(Method::GET, "/a"), (Method::POST, "/outside")] {
        let (status, body) = text(&app, method, path).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(body.contains("put a RedlockLayer around its route"), "{body}");
        assert!(body.contains("Option<LockContext>"), "{body}");
    }
}

#[tokio::test]
async fn handler_may_do_without_lock() {
    let redlock = Redlock::embedded();
    let app = Router::new().route("/a", any(perhaps)).layer(layer(&redlock).http());
    assert_eq!(text(&app, Method::GET, "/a").await.1, "unguarded");
    assert_eq!(text(&app, Method::POST, "/a").await.1, "/a");
}

#[tokio::test]
async fn innermost_lock_is_extracted() {
    let redlock = Redlock::embedded();
    let plain = ServiceBuilder::new().layer(HandleErrorLayer::new(refusal)).layer(layer(&redlock));
    let routes = || Router::new().route("/a", any(show));

    for inner in [routes().layer(layer(&redlock).http()), routes().layer(plain)] {
        let all = RedlockLayer::new(redlock.clone(), |_: &Request| "all").http();
        let app = inner.layer(all).with_state(redlock.clone());
        assert_shown(text(&app, Method::POST, "/a").await, "/a");
        assert_shown(text(&app, Method::GET, "/a").await, "all");
    }
}

#[tokio::test]
async fn context_follows_the_request_into_tasks() {
    async fn elsewhere(request: Request) -> String {
        let app: Router = Router::new().fallback(perhaps);
        let response = tokio::spawn(app.oneshot(request)).await.unwrap().unwrap();
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        String::from_utf8(body.into()).unwrap()
    }
    let app = Router::new().fallback(elsewhere).layer(layer(&Redlock::embedded()).http());
    assert_eq!(text(&app, Method::POST, "/a").await.1, "/a");
}
