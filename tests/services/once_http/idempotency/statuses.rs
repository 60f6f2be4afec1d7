//! The responses that are replayed, and those that leave the key free.

use axum::{Router, body::Body, routing::post};
use http::{Response, StatusCode};
use tower_redlock::once::http::{KeptStatuses, ServerErrors};

use super::tools::{Layer, freeing, layer, pay};
use crate::once_http::site::{Site, serve};

/// Returns the number of runs of a request that is sent twice and gets this status.
async fn runs_of_two(status: u16, adjust: impl FnOnce(Layer) -> Layer) -> usize {
    let site = Site::new(3);
    let runs = site.runs.clone();
    let app = Router::new().route(
        "/pay",
        post(async move || (StatusCode::from_u16(status).unwrap(), runs.run().to_string())),
    );
    let client = serve(app.route_layer(adjust(freeing(&site.at_blue)))).await;
    for _ in 0..2 {
        assert_eq!(client.send(pay("k", "")).await.code(), status);
    }
    site.runs.count()
}

#[tokio::test]
async fn only_successes_are_replayed() {
    for status in [200, 201, 202, 204, 303] {
        assert_eq!(runs_of_two(status, |layer| layer).await, 1, "{status}");
    }
    for status in [
        300, 301, 302, 304, 307, 308, 400, 401, 402, 403, 404, 405, 408, 409, 410, 412, 415, 422,
        425, 429, 499, 500, 502, 503, 599, 600, 999,
    ] {
        assert_eq!(runs_of_two(status, |layer| layer).await, 2, "{status}");
    }
}

#[tokio::test]
async fn statuses_are_chosen_one_by_one() {
    let chosen = |layer: Layer| {
        let kept = KeptStatuses::successes().with(StatusCode::PAYMENT_REQUIRED);
        layer.kept_statuses(kept.with(StatusCode::GATEWAY_TIMEOUT).without(StatusCode::ACCEPTED))
    };
    for (status, runs) in [(200, 1), (402, 1), (504, 1), (202, 2), (404, 2), (500, 2)] {
        assert_eq!(runs_of_two(status, chosen).await, runs, "{status}");
    }
}

#[tokio::test]
async fn all_answers_may_be_kept() {
    let all = |layer: Layer| layer.kept_statuses(KeptStatuses::all());
    for (status, runs) in [(200, 1), (303, 1), (401, 1), (429, 1), (499, 1), (500, 2), (600, 2)] {
        assert_eq!(runs_of_two(status, all).await, runs, "{status}");
    }
    // Stripe stores every response.
    let stripe = |layer| all(layer).server_errors(ServerErrors::Keep);
    for status in [200, 404, 500, 599] {
        assert_eq!(runs_of_two(status, stripe).await, 1, "{status}");
    }
}

#[tokio::test]
async fn third_try_succeeds() {
    let site = Site::new(3);
    let runs = site.runs.clone();
    let app = Router::new().route(
        "/pay",
        post(async move || match runs.run() {
            run @ 1..=2 => (StatusCode::INTERNAL_SERVER_ERROR, run.to_string()),
            run => (StatusCode::OK, run.to_string()),
        }),
    );
    let client = serve(app.route_layer(freeing(&site.at_blue))).await;
    for (status, body) in [(500, "1"), (500, "2"), (200, "3"), (200, "3")] {
        let answer = client.send(pay("k", "")).await;
        assert_eq!((answer.code(), &answer.body[..]), (status, body.as_bytes()));
    }
    assert_eq!(site.runs.count(), 3);
}

#[tokio::test]
async fn kept_statuses_are_configurable() {
    let site = Site::new(3);
    let runs = site.runs.clone();
    let app = Router::new().route(
        "/pay",
        post(async move || match runs.run() {
            1 => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }),
    );
    let once =
        layer(&site.at_blue).complete_when(|response: &Response<Body>| response.status() == 500);
    let client = serve(app.route_layer(once)).await;
    for (status, replayed) in [(404, None), (500, None), (500, Some("true"))] {
        let answer = client.send(pay("k", "")).await;
        assert_eq!((answer.code(), answer.header("idempotency-replayed")), (status, replayed));
    }
}
