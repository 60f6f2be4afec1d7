//! Responses whose `RequestOutcome` takes precedence over their status.

use std::{future::pending, time::Duration};

use axum::{
    Extension, Router,
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use http::{Request, StatusCode};
use tower_redlock::{
    OnceLayer, RedlockLayer,
    once::UnknownOutcome,
    reject::{Rejection, RequestOutcome},
};

use crate::client::{Answer, Client};
use crate::once_http::fixture::{Fixture, HOUR, NewRequest, each_kind, soon};

/// Each setting for unknown outcomes, for each kind of layer.
fn cases() -> impl Iterator<Item = (UnknownOutcome, usize)> {
    let settings = [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)];
    settings.into_iter().flat_map(|unknown| (0..3).map(move |kind| (unknown, kind)))
}

/// A client of a layer of this kind around the service, and its request.
async fn serve_kind(
    fixture: &Fixture,
    app: &Router,
    unknown: UnknownOutcome,
    kind: usize,
) -> (Client, NewRequest) {
    each_kind!(fixture, app, |layer| layer.unknown(unknown))[kind].clone()
}

/// A service whose first response is this one, and whose next responses are successes.
fn first_then_done<A: IntoResponse>(
    fixture: &Fixture,
    first: impl Fn() -> A + Clone + Send + Sync + 'static,
) -> Router {
    fixture.app(move |run| -> Response {
        if run == 1 { first().into_response() } else { format!("run {run}").into_response() }
    })
}

/// Asserts the answer to a request whose first response had an unknown outcome.
#[track_caller]
fn assert_unknown(again: &Answer, unknown: UnknownOutcome) {
    match unknown {
        UnknownOutcome::Release => assert_eq!(again.body, "run 2"),
        _ => again.assert_unknown_outcome(),
    }
}

#[tokio::test]
async fn handler_marks_unknown() {
    for status in [StatusCode::OK, StatusCode::BAD_GATEWAY] {
        for (unknown, kind) in cases() {
            let fixture = Fixture::new(3);
            let marked = move || (status, Extension(RequestOutcome::Unknown), "no idea");
            let app = first_then_done(&fixture, marked);
            let (client, request) = serve_kind(&fixture, &app, unknown, kind).await;
            assert_eq!(soon("the first answer", client.send(request())).await.status, status);
            let again = soon("the second answer", client.send(request())).await;
            assert_unknown(&again, unknown);
        }
    }
}

#[tokio::test]
async fn inner_lost_lock_is_unknown() {
    let hold = Duration::from_secs(5);
    for is_custom in [false, true] {
        for (unknown, kind) in cases() {
            let fixture = Fixture::new(3);
            let runs = fixture.runs.clone();
            let handler = post(async move || match runs.run() {
                1 => pending().await,
                run => format!("run {run}"),
            });
            let app = Router::new().route("/hook", handler.clone()).route("/pay", handler);
            let inner = RedlockLayer::new(fixture.at_blue.clone(), |_: &Request<_>| "inner");
            let inner = inner.max_hold(hold).http();
            let app = if is_custom {
                app.route_layer(inner.on_reject(|_: Rejection<'_>| {
                    http::Response::builder().status(500).body(Bytes::new()).unwrap()
                }))
            } else {
                app.route_layer(inner)
            };
            let (client, request) = serve_kind(&fixture, &app, unknown, kind).await;
            let first = client.spawn(request());
            fixture.runs(1).await;
            fixture.clock.advance(hold);
            assert_eq!(soon("the first answer", first).await.unwrap().code(), 500);
            let again = soon("the second answer", client.send(request())).await;
            assert_unknown(&again, unknown);
        }
    }
}

#[tokio::test]
async fn inner_held_key_is_unknown() {
    for (unknown, kind) in cases() {
        let fixture = Fixture::new(3);
        let app = first_then_done(&fixture, || Extension(RequestOutcome::Unknown));
        let inner = OnceLayer::new(fixture.at_blue.clone(), "inner", |_: &Request<_>| "x");
        let app = app.route_layer(inner.unknown(UnknownOutcome::Hold(HOUR)).http());
        // The first request leaves the inner key held.
        let (other, request) = serve_kind(&fixture, &app, UnknownOutcome::Release, kind).await;
        assert_eq!(other.send(request()).await.code(), 200);
        let (client, request) = serve_kind(&fixture, &app, unknown, kind).await;
        for _ in 0..2 {
            client.send(request()).await.assert_unknown_outcome();
        }
        fixture.at_blue.once_key("layer:inner:x").forget().await.unwrap();
        assert_unknown(&client.send(request()).await, unknown);
    }
}
