//! Webhooks that are delivered several times.

use std::sync::Arc;

use axum::{
    BoxError, Router,
    body::Body,
    routing::{any, get, post},
};
use futures_util::future::join_all;
use http::{Method, Request, Response, StatusCode};
use tokio::sync::Notify;
use tower_redlock::{LockContext, OnceLayer, key, layer::http::HttpBody};

use crate::once_http::{
    client::SOON,
    site::{HOUR, Site, hook, serve, soon},
};

#[tokio::test]
async fn replicas_handle_an_event_once() {
    let site = Site::new(3);
    let runs = site.runs.clone();
    let app = Router::new().route(
        "/hook",
        post(async move |lock: LockContext| {
            assert_eq!(lock.resource().to_string(), "once:layer:hook:evt_1");
            runs.run();
            (StatusCode::CREATED, [("x-own", "1")], "handled")
        }),
    );
    let layer =
        |redlock: &_| OnceLayer::new(Clone::clone(redlock), "hook", key::header("webhook-id"));
    let blue = serve(app.clone().route_layer(layer(&site.at_blue).http())).await;
    let green = serve(app.route_layer(layer(&site.at_green).http())).await;

    let first = blue.send(hook("evt_1")).await;
    assert_eq!((first.code(), first.header("x-own")), (201, Some("1")));
    assert_eq!(first.body, "handled");
    assert_eq!(first.header("once"), None);
    blue.send(hook("evt_1")).await.assert_duplicate();
    green.send(hook("evt_1")).await.assert_duplicate();
    assert_eq!(site.runs.count(), 1);
    // The end of the retention, 96 hours.
    site.clock.advance(96 * HOUR);
    assert_eq!(green.send(hook("evt_1")).await.code(), 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_fifty_is_handled() {
    let site = Site::new(3);
    let (runs, go) = (site.runs.clone(), Arc::new(Notify::new()));
    let gone = Arc::clone(&go);
    let app = Router::new().route(
        "/hook",
        post(async move || {
            runs.run();
            gone.notified().await;
            "handled"
        }),
    );
    let layer =
        |redlock: &_| OnceLayer::new(Clone::clone(redlock), "hook", key::header("webhook-id"));
    let blue = serve(app.clone().route_layer(layer(&site.at_blue).http())).await;
    let green = serve(app.route_layer(layer(&site.at_green).http())).await;

    let client = blue.clone();
    let first = tokio::spawn(async move { client.send(hook("evt_1")).await });
    site.runs(1).await;
    let others = (0..50).map(|i| if i % 2 == 0 { &blue } else { &green });
    let others = soon("answers", join_all(others.map(|client| client.send(hook("evt_1"))))).await;
    for answer in others {
        answer.assert_problem(409, Some(SOON), "in-progress", "not-run");
    }
    go.notify_one();
    assert_eq!(first.await.unwrap().body, "handled");
    let late = join_all((0..50).map(|_| green.send(hook("evt_1")))).await;
    late.iter().for_each(super::client::Answer::assert_duplicate);
    assert_eq!(site.runs.count(), 1);
}

#[tokio::test]
async fn failures_free_the_event() {
    let site = Site::new(3);
    let runs = site.runs.clone();
    let app = Router::new().route(
        "/hook",
        post(async move || match runs.run() {
            1 | 2 => (StatusCode::INTERNAL_SERVER_ERROR, "broken"),
            3 => (StatusCode::TOO_MANY_REQUESTS, "later"),
            4 => (StatusCode::SEE_OTHER, "elsewhere"),
            _ => (StatusCode::ACCEPTED, "handled"),
        }),
    );
    let layer = OnceLayer::new(site.at_blue.clone(), "hook", key::header("webhook-id")).http();
    let client = serve(app.route_layer(layer)).await;
    for status in [500, 500, 429, 303, 202] {
        assert_eq!(client.send(hook("evt_1")).await.code(), status);
    }
    client.send(hook("evt_1")).await.assert_duplicate();
    assert_eq!(site.runs.count(), 5);
}

#[tokio::test]
async fn complete_when_decides() {
    let site = Site::new(3);
    let runs = site.runs.clone();
    let app = Router::new().route(
        "/hook",
        post(async move || match runs.run() {
            1 => StatusCode::OK,
            _ => StatusCode::GONE,
        }),
    );
    let layer = OnceLayer::new(site.at_blue.clone(), "hook", key::header("webhook-id"))
        .complete_when(|response: &axum::response::Response| response.status() == 410)
        .http();
    let client = serve(app.route_layer(layer)).await;
    assert_eq!(client.send(hook("evt_1")).await.code(), 200);
    assert_eq!(client.send(hook("evt_1")).await.code(), 410);
    client.send(hook("evt_1")).await.assert_duplicate();
}

#[tokio::test]
async fn head_runs_the_get_handler() {
    let site = Site::new(3);
    let runs = site.runs.clone();
    let app = Router::new().route(
        "/hook",
        get(async move || {
            runs.run();
            "handled"
        }),
    );
    let layer = OnceLayer::new(site.at_blue.clone(), "hook", key::header("webhook-id")).http();
    let client = serve(app.route_layer(layer)).await;
    let head = |id: &str| {
        let mut request = hook(id);
        *request.method_mut() = Method::HEAD;
        request
    };
    let first = client.send(head("evt_1")).await;
    assert_eq!((first.code(), first.header("content-length")), (200, Some("7")));
    assert!(first.body.is_empty());
    client.send(head("evt_1")).await.assert_duplicate();
    let refused = client.send(Request::head("/hook").body("".into()).unwrap()).await;
    assert_eq!((refused.code(), refused.body.len()), (400, 0));
    assert_eq!(site.runs.count(), 1);
}

#[tokio::test]
async fn layers_stack_on_both_sides() {
    let site = Site::new(3);
    let runs = site.runs.clone();
    let app = Router::new().route("/hook", any(async move || format!("run {}", runs.run())));
    let once = OnceLayer::new(site.at_blue.clone(), "hook", key::header("webhook-id")).http();
    let timeout = tower::timeout::TimeoutLayer::new(HOUR);
    let stack = tower::ServiceBuilder::new()
        .layer(axum::error_handling::HandleErrorLayer::new(async |_: BoxError| {
            StatusCode::GATEWAY_TIMEOUT
        }))
        .layer(timeout)
        .map_response(|response: Response<HttpBody<Body>>| response.map(Body::new))
        .layer(once)
        .layer(axum::middleware::from_fn(
            async |request: axum::extract::Request, next: axum::middleware::Next| {
                let mut response = next.run(request).await;
                response.headers_mut().insert("x-inside", "1".parse().unwrap());
                response
            },
        ));
    let client = serve(app.layer(stack)).await;
    let first = client.send(hook("evt_1")).await;
    assert_eq!((first.code(), first.header("x-inside")), (200, Some("1")));
    client.send(hook("evt_1")).await.assert_duplicate();
}
