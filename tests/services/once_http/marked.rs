//! Responses whose `RequestOutcome` takes precedence over their status.

use std::{future::pending, time::Duration};

use axum::{Extension, Router, body::Body, response::IntoResponse, routing::post};
use bytes::Bytes;
use http::{Request, StatusCode};
use tower_redlock::{
    OnceLayer, RedlockLayer, key,
    once::UnknownOutcome,
    reject::{Rejection, RequestOutcome},
};

use crate::once_http::{
    client::Client,
    idempotency::tools::freeing,
    site::{HOUR, Runs, Site, hook, serve, soon},
};

const UNKNOWN: [UnknownOutcome; 2] = [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)];

pub(crate) fn event() -> Request<Body> {
    Request::post("/hook").body(r#"{"id":"evt_1"}"#.into()).unwrap()
}

pub(crate) fn payment() -> Request<Body> {
    let request = Request::post("/hook").header("host", "pay.example").header("x-caller", "alice");
    request.header("idempotency-key", "k").body("".into()).unwrap()
}

pub(crate) type Send = fn() -> Request<Body>;

/// A server for each kind of layer around `app`, and its request.
async fn layers(site: &Site, app: &Router, unknown: UnknownOutcome) -> [(Client, Send); 3] {
    let redlock = || site.at_blue.clone();
    let by_head = OnceLayer::new(redlock(), "head", key::header("webhook-id")).unknown(unknown);
    let by_body = OnceLayer::by_body(redlock(), "body", key::json_pointer("/id")).unknown(unknown);
    let app = || app.clone();
    [
        (serve(app().route_layer(by_head.http())).await, || hook("evt_1")),
        (serve(app().route_layer(by_body)).await, event),
        (serve(app().route_layer(freeing(&site.at_blue).unknown(unknown))).await, payment),
    ]
}

/// A handler whose first response is this one, and whose next responses are successes.
fn first_then_done<A: IntoResponse>(
    runs: &Runs,
    first: impl Fn() -> A + Clone + std::marker::Send + Sync + 'static,
) -> Router {
    let runs = runs.clone();
    Router::new().route(
        "/hook",
        post(async move || match runs.run() {
            1 => first().into_response(),
            run => format!("run {run}").into_response(),
        }),
    )
}

/// The key of a response with an unknown outcome, by the setting for such keys.
async fn assert_unknown(client: &Client, request: Send, unknown: UnknownOutcome, status: u16) {
    assert_eq!(soon("the first", client.send(request())).await.code(), status);
    let again = soon("the second", client.send(request())).await;
    match unknown {
        UnknownOutcome::Release => assert_eq!(again.body, "run 2"),
        _ => again.assert_problem(409, None, "unknown-outcome", "unknown"),
    }
}

#[tokio::test]
async fn handler_marks_unknown() {
    for status in [StatusCode::OK, StatusCode::BAD_GATEWAY] {
        for unknown in UNKNOWN {
            for kind in 0..3 {
                let site = Site::new(3);
                let app = first_then_done(&site.runs, move || {
                    (status, Extension(RequestOutcome::Unknown), "no idea")
                });
                let (client, request) = layers(&site, &app, unknown).await[kind].clone();
                assert_unknown(&client, request, unknown, status.as_u16()).await;
            }
        }
    }
}

#[tokio::test]
async fn inner_lost_lock_is_unknown() {
    for custom in [false, true] {
        for unknown in UNKNOWN {
            for kind in 0..3 {
                let site = Site::new(3);
                let runs = site.runs.clone();
                let app = Router::new().route(
                    "/hook",
                    post(async move || match runs.run() {
                        1 => pending().await,
                        run => format!("run {run}"),
                    }),
                );
                let inner = RedlockLayer::new(site.at_blue.clone(), |_: &Request<Body>| "inner")
                    .max_hold(Duration::from_secs(5))
                    .http();
                let app = if custom {
                    app.route_layer(inner.on_reject(|_: Rejection<'_>| {
                        http::Response::builder().status(500).body(Bytes::new()).unwrap()
                    }))
                } else {
                    app.route_layer(inner)
                };
                let (client, request) = layers(&site, &app, unknown).await[kind].clone();
                let sent = client.clone();
                let first = tokio::spawn(async move { sent.send(request()).await });
                site.runs(1).await;
                site.clock.advance(Duration::from_secs(5));
                assert_eq!(soon("the answer", first).await.unwrap().code(), 500);
                let again = soon("the second", client.send(request())).await;
                match unknown {
                    UnknownOutcome::Release => assert_eq!(again.body, "run 2"),
                    _ => again.assert_problem(409, None, "unknown-outcome", "unknown"),
                }
            }
        }
    }
}

#[tokio::test]
async fn inner_held_key_is_unknown() {
    for unknown in UNKNOWN {
        for kind in 0..3 {
            let site = Site::new(3);
            let app = first_then_done(&site.runs, || Extension(RequestOutcome::Unknown));
            let inner = OnceLayer::new(site.at_blue.clone(), "inner", |_: &Request<Body>| "x")
                .unknown(UnknownOutcome::Hold(HOUR))
                .http();
            let app = app.route_layer(inner);
            // Holds the inner key.
            let (other, request) = layers(&site, &app, UnknownOutcome::Release).await[kind].clone();
            assert_eq!(other.send(request()).await.code(), 200);
            let (client, request) = layers(&site, &app, unknown).await[kind].clone();
            for _ in 0..2 {
                let answer = client.send(request()).await;
                answer.assert_problem(409, None, "unknown-outcome", "unknown");
            }
            site.at_blue.once_key("layer:inner:x").forget().await.unwrap();
            let again = client.send(request()).await;
            match unknown {
                UnknownOutcome::Release => assert_eq!(again.body, "run 2"),
                _ => again.assert_problem(409, None, "unknown-outcome", "unknown"),
            }
        }
    }
}
