//! The defaults for requests whose outcome is unknown: of `Idempotency-Key` and of webhooks.

use std::time::Duration;

use axum::{Router, body::Body};
use http::{Request, StatusCode};
use tower_redlock::once::http::DEFAULT_HOLD;

use super::requests::{layer, pay};
use crate::once_http::fixture::{Fixture, each_kind, serve};
use crate::support::eventually_async;

/// A service whose first response has this status; with the status 0 it panics.
fn first_fails(fixture: &Fixture, status: u16) -> Router {
    fixture.app(move |run| {
        assert!(run > 1 || status > 0, "on purpose");
        let status = if run == 1 { status } else { 200 };
        (StatusCode::from_u16(status).unwrap(), format!("run {run}"))
    })
}

fn payment() -> Request<Body> {
    pay("k", "")
}

#[tokio::test]
async fn server_errors_and_panics_are_held() {
    for status in [500, 502, 503, 504, 599, 0] {
        let fixture = Fixture::new(3);
        let client =
            serve(first_fails(&fixture, status).route_layer(layer(&fixture.at_blue))).await;

        match client.try_send(payment()).await {
            Ok(answer) => assert_eq!(answer.code(), status),
            Err(_) => assert_eq!(status, 0, "a panic ends the connection"),
        }
        eventually_async("the lock is released", async || fixture.nodes.key_counts() == [0; 3])
            .await;

        for _ in 0..2 {
            client.send(payment()).await.assert_unknown_outcome();
        }
        fixture.clock.advance(DEFAULT_HOLD.saturating_sub(Duration::from_secs(1)));
        assert_eq!(client.send(payment()).await.code(), 409, "{status}");
        fixture.clock.advance(Duration::from_secs(1));
        assert_eq!(client.send(payment()).await.body, "run 2", "{status}");
    }
}

/// Senders of webhooks retry.
#[tokio::test]
async fn webhooks_run_again_after_failures() {
    for status in [302, 303, 400, 429, 500, 503, 0] {
        for kind in 0..2 {
            let fixture = Fixture::new(3);
            let app = first_fails(&fixture, status);
            let (client, request) = &each_kind!(fixture, app, |layer| layer)[kind];
            drop(client.try_send(request()).await);
            eventually_async("the lock is released", async || fixture.nodes.key_counts() == [0; 3])
                .await;
            assert_eq!(client.send(request()).await.body, "run 2", "{status}");
            client.send(request()).await.assert_duplicate();
        }
    }
}
