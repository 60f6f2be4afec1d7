//! Requests that don't end, and nodes that can't be reached.

use std::{future::pending, sync::Arc};

use axum::{Router, routing::post};
use bytes::Bytes;
use http::Response;
use http_body_util::channel::Channel;
use tokio::sync::Notify;
use tower_redlock::once::UnknownOutcome;

use crate::client::Client;
use crate::once_http::fixture::{Fixture, HOUR, Runs, TTL, hook, serve, soon, webhooks};

/// The first run does not end.
fn stuck_at_first(runs: &Runs) -> Router {
    let runs = runs.clone();
    Router::new().route(
        "/hook",
        post(async move || match runs.run() {
            1 => pending().await,
            _ => "handled",
        }),
    )
}

async fn both(fixture: &Fixture, app: Router, unknown: UnknownOutcome) -> (Client, Client) {
    let layer = |redlock| webhooks(redlock).unknown(unknown).http();
    let blue = serve(app.clone().route_layer(layer(&fixture.at_blue))).await;
    (blue, serve(app.route_layer(layer(&fixture.at_green))).await)
}

/// Partitions blue from the nodes until the lock of its request is lost.
async fn lose(fixture: &Fixture, blue: &Client) {
    let lost = blue.spawn(hook("evt_1"));
    fixture.runs(1).await;
    fixture.blue.partition(0..3);
    fixture.clock.advance(TTL);
    let lost = soon("the answer", lost).await.unwrap();
    lost.assert_problem(500, None, "lost", "unknown");
    fixture.blue.heal(0..3);
}

#[tokio::test]
async fn no_quorum_never_runs() {
    let fixture = Fixture::new(3);
    let (blue, green) =
        both(&fixture, stuck_at_first(&fixture.runs), UnknownOutcome::Release).await;
    fixture.nodes.stop(0..2);
    for client in [&blue, &green] {
        client.send(hook("evt_1")).await.assert_problem(503, Some("1"), "no-quorum", "not-run");
    }
    assert_eq!(fixture.runs.count(), 0);
}

#[tokio::test]
async fn lost_request_is_unknown_then_free() {
    let fixture = Fixture::new(3);
    let (blue, green) =
        both(&fixture, stuck_at_first(&fixture.runs), UnknownOutcome::Release).await;
    lose(&fixture, &blue).await;
    assert_eq!(green.send(hook("evt_1")).await.body, "handled");
    blue.send(hook("evt_1")).await.assert_duplicate();
}

#[tokio::test]
async fn held_key_has_no_retry_after() {
    let fixture = Fixture::new(3);
    let (blue, green) =
        both(&fixture, stuck_at_first(&fixture.runs), UnknownOutcome::Hold(HOUR)).await;
    lose(&fixture, &blue).await;
    for client in [&blue, &green] {
        client.send(hook("evt_1")).await.assert_unknown_outcome();
    }
    fixture.at_green.once_key("layer:hook:evt_1").mark_done().await.unwrap();
    blue.send(hook("evt_1")).await.assert_duplicate();
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn unrecorded_response_is_sent() {
    let fixture = Fixture::new(3);
    let (runs, blue) = (fixture.runs.clone(), fixture.blue.clone());
    let app = Router::new().route(
        "/hook",
        post(async move || {
            blue.partition(0..3);
            format!("run {}", runs.run())
        }),
    );
    let layer = webhooks(&fixture.at_blue).http();
    let client = serve(app.route_layer(layer)).await;
    let answer = client.spawn(hook("evt_1"));
    fixture.runs(1).await;
    // The time for which the recording is tried.
    while !answer.is_finished() {
        fixture.clock.advance(std::time::Duration::from_millis(20));
        tokio::task::yield_now().await;
    }
    let answer = answer.await.unwrap();
    assert_eq!((answer.code(), &answer.body[..]), (200, &b"run 1"[..]));
}

#[tokio::test]
async fn record_precedes_the_response() {
    let fixture = Fixture::new(3);
    let (streams, runs) = (Arc::new(std::sync::Mutex::new(None)), fixture.runs.clone());
    let ready = Arc::new(Notify::new());
    let (given, is_given) = (Arc::clone(&streams), Arc::clone(&ready));
    let app = Router::new().route(
        "/hook",
        post(async move || {
            runs.run();
            let (sender, body) = Channel::<Bytes, std::io::Error>::new(1);
            *given.lock().unwrap() = Some(sender);
            is_given.notify_one();
            Response::new(axum::body::Body::new(body))
        }),
    );
    let (blue, green) = both(&fixture, app, UnknownOutcome::Release).await;
    let response = blue.open(hook("evt_1")).await.unwrap();
    assert_eq!(response.status(), 200);
    ready.notified().await;
    // The body has not ended.
    green.send(hook("evt_1")).await.assert_duplicate();
    let mut sender = streams.lock().unwrap().take().unwrap();
    sender.send_data("part".into()).await.unwrap();
    sender.abort(std::io::Error::other("on purpose"));
    let body = http_body_util::BodyExt::collect(response.into_body()).await;
    assert!(body.is_err(), "{body:?}");
    green.send(hook("evt_1")).await.assert_duplicate();
    assert_eq!(fixture.runs.count(), 1);
}
