//! What a 5xx does to its key.

use std::time::Duration;

use axum::{Extension, Router, body::Body, routing::post};
use http::{Response, StatusCode};
use tower_redlock::{
    Redlock,
    once::{UnknownOutcome, http::ServerErrors},
    reject::RequestOutcome,
};

use crate::client::{Answer, Client};
use crate::once_http::fixture::{Fixture, HOUR, NewRequest, TTL, each_kind, hook, serve, webhooks};

/// A service that fails at its first run, and responds with the number of each.
fn failing(fixture: &Fixture, status: u16) -> Router {
    let status = StatusCode::from_u16(status).unwrap();
    fixture.app(move |run| (if run == 1 { status } else { StatusCode::OK }, format!("run {run}")))
}

/// Two tries.
async fn two(client: &Client, request: NewRequest) -> [Answer; 2] {
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
    again.assert_unknown_outcome();
}

#[tokio::test]
async fn freed_errors_run_again() {
    for status in [500, 503, 599] {
        for kind in 0..3 {
            let fixture = Fixture::new(3);
            let (client, request) = &each_kind!(fixture, failing(&fixture, status), |layer| layer
                .server_errors(ServerErrors::Release))[kind];
            assert_ran_twice(&two(client, *request).await, status);
        }
    }
}

#[tokio::test]
async fn kept_errors_are_final() {
    for status in [500, 503, 599] {
        for kind in 0..3 {
            let fixture = Fixture::new(3);
            let app = failing(&fixture, status);
            let (client, request) =
                &each_kind!(fixture, app, |layer| layer.server_errors(ServerErrors::Keep))[kind];
            assert_kept(&two(client, *request).await, status);
            assert_eq!(fixture.runs.count(), 1);
        }
    }
}

#[tokio::test]
async fn held_errors_wait_for_a_decision() {
    let names = ["layer:hook:evt_1", "layer:hook:evt_1", "idempotency:pay://pay.example/5:alice:k"];
    for (kind, name) in names.into_iter().enumerate() {
        let fixture = Fixture::new(3);
        let app = failing(&fixture, 500);
        let (client, request) =
            &each_kind!(fixture, app, |layer| layer.server_errors(ServerErrors::Hold(HOUR)))[kind];
        assert_held(&two(client, *request).await, 500);
        fixture.at_green.once_key(name).forget().await.unwrap();
        assert_eq!(client.send(request()).await.body, "run 2");
    }
}

#[tokio::test]
async fn held_errors_expire() {
    let fixture = Fixture::new(3);
    let app = failing(&fixture, 500);
    let [(client, request), ..] =
        &each_kind!(fixture, app, |layer| layer.server_errors(ServerErrors::Hold(HOUR)));
    assert_held(&two(client, *request).await, 500);
    fixture.clock.advance(HOUR);
    assert_eq!(client.send(request()).await.body, "run 2");
}

#[tokio::test]
async fn unknown_hold_time_takes_precedence() {
    let fixture = Fixture::new(3);
    let app = failing(&fixture, 500);
    let [(client, request), ..] = &each_kind!(fixture, app, |layer| layer
        .unknown(UnknownOutcome::Hold(HOUR))
        .server_errors(ServerErrors::Hold(HOUR / 2)));
    assert_held(&two(client, *request).await, 500);
    fixture.clock.advance(HOUR / 2);
    client.send(request()).await.assert_unknown_outcome();
    fixture.clock.advance(HOUR / 2);
    assert_eq!(client.send(request()).await.body, "run 2");
}

#[tokio::test]
async fn complete_when_takes_precedence() {
    let all = [ServerErrors::Release, ServerErrors::Keep, ServerErrors::Hold(HOUR)];
    for errors in all {
        for kind in 0..3 {
            // Done: whatever is said of server errors.
            let fixture = Fixture::new(3);
            let app = failing(&fixture, 500);
            let done = |response: &Response<Body>| response.status() == 500;
            let (client, request) = &each_kind!(fixture, app, |layer| layer
                .complete_when(done)
                .server_errors(errors))[kind];
            assert_kept(&two(client, *request).await, 500);
            // Not done: what is said of server errors.
            let fixture = Fixture::new(3);
            let app = failing(&fixture, 500);
            let done = |response: &Response<Body>| response.status() == 404;
            let (client, request) = &each_kind!(fixture, app, |layer| layer
                .server_errors(errors)
                .complete_when(done))[kind];
            let answers = two(client, *request).await;
            match errors {
                ServerErrors::Release => assert_ran_twice(&answers, 500),
                ServerErrors::Keep => assert_kept(&answers, 500),
                _ => assert_held(&answers, 500),
            }
        }
    }
}

/// A service whose first response is an error with a `RequestOutcome`.
fn saying(fixture: &Fixture, said: RequestOutcome) -> Router {
    fixture.app(move |run| match run {
        1 => Err((StatusCode::BAD_GATEWAY, Extension(said), "run 1")),
        run => Ok(format!("run {run}")),
    })
}

#[tokio::test]
async fn what_the_response_says_goes_before() {
    let all = [ServerErrors::Release, ServerErrors::Keep, ServerErrors::Hold(HOUR)];
    for errors in all {
        for kind in 0..3 {
            let answers = async |said| {
                let fixture = Fixture::new(3);
                let app = saying(&fixture, said);
                let (client, request) =
                    &each_kind!(fixture, app, |layer| layer.server_errors(errors))[kind];
                two(client, *request).await
            };
            assert_kept(&answers(RequestOutcome::Done).await, 502);
            assert_ran_twice(&answers(RequestOutcome::Refused).await, 502);
            let unknown = answers(RequestOutcome::Unknown).await;
            match errors {
                // Never done; free, as unknown outcomes are here.
                ServerErrors::Release | ServerErrors::Keep => assert_ran_twice(&unknown, 502),
                _ => assert_held(&unknown, 502),
            }
        }
    }
}

/// Blue is cut off while its handler fails, for a part of its TTL or until its lock has ended. Returns a
/// client of green.
async fn cut_off_at_its_error(fixture: &Fixture, time: Duration) -> Client {
    let (runs, blue) = (fixture.runs.clone(), fixture.blue.clone());
    let app = Router::new().route(
        "/hook",
        post(async move || {
            if runs.run() == 1 {
                blue.partition(0..3);
            }
            (StatusCode::INTERNAL_SERVER_ERROR, "failed")
        }),
    );
    let layer =
        |redlock: &Redlock| webhooks(redlock).http().server_errors(ServerErrors::Hold(HOUR));
    let blue = serve(app.clone().route_layer(layer(&fixture.at_blue))).await;
    let green = serve(app.route_layer(layer(&fixture.at_green))).await;
    let answer = blue.spawn(hook("evt_1"));
    fixture.runs(1).await;
    // The time for which the recording is tried.
    while !answer.is_finished() {
        fixture.clock.advance(Duration::from_millis(20));
        tokio::task::yield_now().await;
    }
    assert_eq!(answer.await.unwrap().body, "failed");
    fixture.clock.advance(time);
    fixture.blue.heal(0..3);
    fixture.clock.advance(Duration::from_secs(2));
    green
}

#[tokio::test]
async fn unstored_hold_is_owed() {
    let fixture = Fixture::new(3);
    let green = cut_off_at_its_error(&fixture, TTL / 2).await;
    green.send(hook("evt_1")).await.assert_unknown_outcome();
    assert_eq!((fixture.runs.count(), fixture.at_blue.counts().unrecorded), (1, 0));
}

#[tokio::test]
async fn unheld_error_frees_the_key() {
    let fixture = Fixture::new(3);
    let green = cut_off_at_its_error(&fixture, TTL).await;
    assert_eq!(green.send(hook("evt_1")).await.body, "failed");
    assert_eq!((fixture.runs.count(), fixture.at_blue.counts().unrecorded), (2, 1));
}

#[tokio::test]
async fn invalid_hold_is_500() {
    for time in [Duration::ZERO, Duration::MAX] {
        for kind in 0..3 {
            let fixture = Fixture::new(3);
            let app = failing(&fixture, 500);
            let (client, request) = &each_kind!(fixture, app, |layer| layer
                .server_errors(ServerErrors::Hold(time)))[kind];
            client.send(request()).await.assert_bad_settings();
            assert_eq!(fixture.runs.count(), 0);
        }
    }
}
