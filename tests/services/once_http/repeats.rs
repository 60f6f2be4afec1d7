//! Webhooks that are delivered several times.

use axum::{Router, routing::post};
use http::{Method, Request, StatusCode};
use tower_redlock::LockContext;

use crate::once_http::fixture::{Fixture, HOUR, hook, serve, webhooks};

#[tokio::test]
async fn replicas_handle_an_event_once() {
    let fixture = Fixture::new(3);
    let runs = fixture.runs.clone();
    let app = Router::new().route(
        "/hook",
        post(async move |lock: LockContext| {
            assert_eq!(lock.resource().to_string(), "once:layer:hook:evt_1");
            runs.run();
            (StatusCode::CREATED, [("x-own", "1")], "handled")
        }),
    );
    let blue = serve(app.clone().route_layer(webhooks(&fixture.at_blue).http())).await;
    let green = serve(app.route_layer(webhooks(&fixture.at_green).http())).await;

    let first = blue.send(hook("evt_1")).await;
    assert_eq!((first.code(), first.header("x-own")), (201, Some("1")));
    assert_eq!(first.body, "handled");
    assert_eq!(first.header("once"), None);
    blue.send(hook("evt_1")).await.assert_duplicate();
    green.send(hook("evt_1")).await.assert_duplicate();
    assert_eq!(fixture.runs.count(), 1);
    // The end of the retention, 96 hours.
    fixture.clock.advance(96 * HOUR);
    assert_eq!(green.send(hook("evt_1")).await.code(), 201);
}

#[tokio::test]
async fn head_runs_the_get_handler() {
    let fixture = Fixture::new(3);
    let app = fixture.app(|_| "handled");
    let client = serve(app.route_layer(webhooks(&fixture.at_blue).http())).await;
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
    assert_eq!(fixture.runs.count(), 1);
}
