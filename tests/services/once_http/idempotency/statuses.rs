//! The responses that are replayed, and those that leave the key free.

use axum::body::Body;
use http::{Response, StatusCode};
use tower_redlock::once::http::{KeptStatuses, ServerErrors};

use super::requests::{Layer, freeing, layer, pay};
use crate::once_http::fixture::{Fixture, HOUR, serve};

/// Returns the number of runs of a request that is sent twice and gets this status.
async fn runs_of_two(status: u16, adjust: impl FnOnce(Layer) -> Layer) -> usize {
    let fixture = Fixture::new(3);
    let app = fixture.app(move |run| (StatusCode::from_u16(status).unwrap(), run.to_string()));
    let client = serve(app.route_layer(adjust(freeing(&fixture.at_blue)))).await;
    for _ in 0..2 {
        assert_eq!(client.send(pay("k", "")).await.code(), status);
    }
    fixture.runs.count()
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
    // The settings for server errors do not apply to these.
    for status in [301, 400, 404, 429, 600] {
        for errors in [ServerErrors::Keep, ServerErrors::Hold(HOUR)] {
            assert_eq!(
                runs_of_two(status, |layer| layer.server_errors(errors)).await,
                2,
                "{status}"
            );
        }
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
async fn kept_statuses_are_configurable() {
    let fixture = Fixture::new(3);
    let app = fixture.app(|run| match run {
        1 => StatusCode::OK,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    });
    let once =
        layer(&fixture.at_blue).complete_when(|response: &Response<Body>| response.status() == 500);
    let client = serve(app.route_layer(once)).await;
    for (status, replayed) in [(200, None), (500, None), (500, Some("true"))] {
        let answer = client.send(pay("k", "")).await;
        assert_eq!((answer.code(), answer.header("idempotency-replayed")), (status, replayed));
    }
}
