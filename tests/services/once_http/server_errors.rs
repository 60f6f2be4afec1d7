//! What a 5xx does to its key.

use std::time::Duration;

use axum::{Extension, Router, body::Body, routing::post};
use http::{Response, StatusCode};
use tower_redlock::{
    OnceLayer, Redlock, key,
    once::{UnknownOutcome, http::ServerErrors},
    reject::RequestOutcome,
};

use crate::once_http::{
    client::{Answer, Client},
    idempotency::tools::freeing,
    marked::{Send, event, payment},
    site::{HOUR, Site, TTL, hook, serve},
};

/// Runs the layers as a service sets them up.
macro_rules! layers {
    ($site:expr, $app:expr, |$layer:ident| $adjusted:expr) => {{
        let redlock = $site.at_blue.clone();
        let $layer = OnceLayer::new(redlock.clone(), "head", key::header("webhook-id")).http();
        let by_head = serve($app.clone().route_layer($adjusted)).await;
        let $layer = OnceLayer::by_body(redlock, "body", key::json_pointer("/id"));
        let by_body = serve($app.clone().route_layer($adjusted)).await;
        let $layer = freeing(&$site.at_blue);
        let idempotency = serve($app.clone().route_layer($adjusted)).await;
        [
            (by_head, (|| hook("evt_1")) as Send),
            (by_body, event as Send),
            (idempotency, payment as Send),
        ]
    }};
}

/// Fails at its first run, and gives the number of each.
fn failing(site: &Site, status: u16) -> Router {
    let runs = site.runs.clone();
    let status = StatusCode::from_u16(status).unwrap();
    Router::new().route(
        "/hook",
        post(async move || match runs.run() {
            1 => (status, "run 1".to_owned()),
            run => (StatusCode::OK, format!("run {run}")),
        }),
    )
}

/// Two tries.
async fn two(client: &Client, request: Send) -> [Answer; 2] {
    [client.send(request()).await, client.send(request()).await]
}

#[track_caller]
fn assert_ran_twice([first, again]: &[Answer; 2], status: u16) {
    assert_eq!((first.code(), &first.body[..]), (status, &b"run 1"[..]));
    assert_eq!((again.code(), &again.body[..]), (200, &b"run 2"[..]));
}

/// The first response is final: it is replayed, or a repeat is a duplicate.
#[track_caller]
fn assert_kept([first, again]: &[Answer; 2], status: u16) {
    assert_eq!((first.code(), &first.body[..]), (status, &b"run 1"[..]));
    match again.header("idempotency-replayed") {
        Some(_) => assert_eq!((again.status, &again.body), (first.status, &first.body)),
        None => again.assert_duplicate(),
    }
}

#[track_caller]
fn assert_held([first, again]: &[Answer; 2], status: u16) {
    assert_eq!((first.code(), &first.body[..]), (status, &b"run 1"[..]));
    again.assert_problem(409, None, "unknown-outcome", "unknown");
}

#[tokio::test]
async fn freed_errors_run_again() {
    for status in [500, 503, 599] {
        for kind in 0..3 {
            let site = Site::new(3);
            let (client, request) = &layers!(site, failing(&site, status), |layer| layer
                .server_errors(ServerErrors::Free))[kind];
            assert_ran_twice(&two(client, *request).await, status);
        }
    }
}

#[tokio::test]
async fn kept_errors_are_final() {
    for status in [500, 503, 599] {
        for kind in 0..3 {
            let site = Site::new(3);
            let app = failing(&site, status);
            let (client, request) =
                &layers!(site, app, |layer| layer.server_errors(ServerErrors::Keep))[kind];
            assert_kept(&two(client, *request).await, status);
            assert_eq!(site.runs.count(), 1);
        }
    }
}

#[tokio::test]
async fn held_errors_wait_for_a_decision() {
    let names = ["layer:head:evt_1", "layer:body:evt_1", "idempotency:pay://pay.example/5:alice:k"];
    for (kind, name) in names.into_iter().enumerate() {
        let site = Site::new(3);
        let app = failing(&site, 500);
        let (client, request) =
            &layers!(site, app, |layer| layer.server_errors(ServerErrors::Hold(HOUR)))[kind];
        assert_held(&two(client, *request).await, 500);
        site.at_green.once_key(name).forget().await.unwrap();
        assert_eq!(client.send(request()).await.body, "run 2");
    }
}

#[tokio::test]
async fn held_errors_expire() {
    let site = Site::new(3);
    let app = failing(&site, 500);
    let [(client, request), ..] =
        &layers!(site, app, |layer| layer.server_errors(ServerErrors::Hold(HOUR)));
    assert_held(&two(client, *request).await, 500);
    site.clock.advance(HOUR);
    assert_eq!(client.send(request()).await.body, "run 2");
}

#[tokio::test]
async fn unknown_hold_time_takes_precedence() {
    let site = Site::new(3);
    let app = failing(&site, 500);
    let [(client, request), ..] = &layers!(site, app, |layer| layer
        .unknown(UnknownOutcome::Hold(HOUR))
        .server_errors(ServerErrors::Hold(HOUR / 2)));
    assert_held(&two(client, *request).await, 500);
    site.clock.advance(HOUR / 2);
    let again = client.send(request()).await;
    again.assert_problem(409, None, "unknown-outcome", "unknown");
    site.clock.advance(HOUR / 2);
    assert_eq!(client.send(request()).await.body, "run 2");
}

#[tokio::test]
async fn other_statuses_are_no_server_errors() {
    for status in [404, 429, 600] {
        for errors in [ServerErrors::Keep, ServerErrors::Hold(HOUR)] {
            let site = Site::new(3);
            let app = failing(&site, status);
            let [(client, request), ..] = &layers!(site, app, |layer| layer.server_errors(errors));
            assert_ran_twice(&two(client, *request).await, status);
        }
    }
}

#[tokio::test]
async fn complete_when_takes_precedence() {
    let all = [ServerErrors::Free, ServerErrors::Keep, ServerErrors::Hold(HOUR)];
    for errors in all {
        for kind in 0..3 {
            // Done: whatever is said of server errors.
            let site = Site::new(3);
            let app = failing(&site, 500);
            let done = |response: &Response<Body>| response.status() == 500;
            let (client, request) =
                &layers!(site, app, |layer| layer.complete_when(done).server_errors(errors))[kind];
            assert_kept(&two(client, *request).await, 500);
            // Not done: what is said of server errors.
            let site = Site::new(3);
            let app = failing(&site, 500);
            let done = |response: &Response<Body>| response.status() == 404;
            let (client, request) =
                &layers!(site, app, |layer| layer.server_errors(errors).complete_when(done))[kind];
            let answers = two(client, *request).await;
            match errors {
                ServerErrors::Free => assert_ran_twice(&answers, 500),
                ServerErrors::Keep => assert_kept(&answers, 500),
                _ => assert_held(&answers, 500),
            }
        }
    }
}

/// A handler whose first response is an error with a `RequestOutcome`.
fn saying(site: &Site, said: RequestOutcome) -> Router {
    let runs = site.runs.clone();
    Router::new().route(
        "/hook",
        post(async move || match runs.run() {
            1 => Err((StatusCode::BAD_GATEWAY, Extension(said), "run 1")),
            run => Ok(format!("run {run}")),
        }),
    )
}

#[tokio::test]
async fn what_the_response_says_goes_before() {
    let all = [ServerErrors::Free, ServerErrors::Keep, ServerErrors::Hold(HOUR)];
    for errors in all {
        for kind in 0..3 {
            let answers = async |said| {
                let site = Site::new(3);
                let app = saying(&site, said);
                let (client, request) =
                    &layers!(site, app, |layer| layer.server_errors(errors))[kind];
                two(client, *request).await
            };
            assert_kept(&answers(RequestOutcome::Done).await, 502);
            assert_ran_twice(&answers(RequestOutcome::Refused).await, 502);
            let unknown = answers(RequestOutcome::Unknown).await;
            match errors {
                // Never done; free, as unknown outcomes are here.
                ServerErrors::Free | ServerErrors::Keep => assert_ran_twice(&unknown, 502),
                _ => assert_held(&unknown, 502),
            }
        }
    }
}

/// Blue is cut off while its handler fails, for a part of its TTL or until its lock has ended. Returns a
/// client of green.
async fn cut_off_at_its_error(site: &Site, time: Duration) -> Client {
    let (runs, blue) = (site.runs.clone(), site.blue.clone());
    let app = Router::new().route(
        "/hook",
        post(async move || {
            if runs.run() == 1 {
                blue.partition(0..3);
            }
            (StatusCode::INTERNAL_SERVER_ERROR, "failed")
        }),
    );
    let layer = |redlock: &Redlock| {
        let layer = OnceLayer::new(redlock.clone(), "head", key::header("webhook-id"));
        layer.http().server_errors(ServerErrors::Hold(HOUR))
    };
    let blue = serve(app.clone().route_layer(layer(&site.at_blue))).await;
    let green = serve(app.route_layer(layer(&site.at_green))).await;
    let answer = tokio::spawn(async move { blue.send(hook("evt_1")).await });
    site.runs(1).await;
    // The time for which the recording is tried.
    while !answer.is_finished() {
        site.clock.advance(Duration::from_millis(20));
        tokio::task::yield_now().await;
    }
    assert_eq!(answer.await.unwrap().body, "failed");
    site.clock.advance(time);
    site.blue.heal(0..3);
    site.clock.advance(Duration::from_secs(2));
    green
}

#[tokio::test]
async fn unstored_hold_is_owed() {
    let site = Site::new(3);
    let green = cut_off_at_its_error(&site, TTL / 2).await;
    green.send(hook("evt_1")).await.assert_problem(409, None, "unknown-outcome", "unknown");
    assert_eq!((site.runs.count(), site.at_blue.counts().unrecorded), (1, 0));
}

#[tokio::test]
async fn unheld_error_frees_the_key() {
    let site = Site::new(3);
    let green = cut_off_at_its_error(&site, TTL).await;
    assert_eq!(green.send(hook("evt_1")).await.body, "failed");
    assert_eq!((site.runs.count(), site.at_blue.counts().unrecorded), (2, 1));
}

#[tokio::test]
async fn invalid_hold_is_500() {
    for time in [Duration::ZERO, Duration::MAX] {
        for kind in 0..3 {
            let site = Site::new(3);
            let app = failing(&site, 500);
            let (client, request) =
                &layers!(site, app, |layer| layer.server_errors(ServerErrors::Hold(time)))[kind];
            let answer = client.send(request()).await;
            answer.assert_problem(500, None, "bad-settings", "not-run");
            assert_eq!(site.runs.count(), 0);
        }
    }
}
