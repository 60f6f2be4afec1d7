//! Responses that the nodes do not store, as others take too much memory.

use axum::{Router, body::Body, routing::post};
use http::{Request, StatusCode};

use super::requests::{layer, pay, pay_as};
use crate::once_http::fixture::{Fixture, HOUR, serve};

/// Responds with as many bytes as the request's body states.
async fn answer(body: String) -> String {
    "x".repeat(body.parse().unwrap())
}

#[tokio::test]
async fn response_beyond_quota_is_dropped() {
    let fixture = Fixture::new(3);
    let redlock = fixture.blue.builder().max_stored_response_bytes(100_000).build().unwrap();
    let app = Router::new().route("/pay", post(answer)).route_layer(layer(&redlock));
    let client = serve(app).await;
    for (key, length, is_kept) in [
        ("first", "60000", true),
        ("large", "60000", false),
        ("small", "20000", true),
        ("last", "20000", false),
    ] {
        let first = client.send(pay(key, length)).await;
        assert_eq!((first.code(), first.body.len()), (200, length.parse().unwrap()), "{key}");
        let again = client.send(pay(key, length)).await;
        if is_kept {
            assert_eq!(
                (&again.body, again.header("idempotency-replayed")),
                (&first.body, Some("true"))
            );
        } else {
            again.assert_not_kept();
        }
    }
    // At the end of the retention, 96 hours, and a 32nd of it, there is room again.
    fixture.clock.advance(HOUR * 99);
    assert_eq!(client.send(pay("large", "60000")).await.code(), 200);
    client.send(pay("large", "60000")).await.assert_replayed();
}

#[tokio::test]
async fn full_quota_still_records_requests() {
    let fixture = Fixture::new(3);
    let redlock = fixture.blue.builder().max_stored_response_bytes(0).build().unwrap();
    let app = Router::new().route("/pay", post(answer)).route_layer(layer(&redlock));
    let client = serve(app).await;
    assert_eq!(client.send(pay("k", "1")).await.body, "x");
    client.send(pay("k", "1")).await.assert_not_kept();
    client.send(pay("k", "2")).await.assert_key_reused();
}

#[tokio::test]
async fn excess_record_is_503() {
    let fixture = Fixture::new(3);
    let redlock = fixture.blue.builder().max_records(1).build().unwrap();
    let app = Router::new().route("/pay", post(answer)).route_layer(layer(&redlock));
    let client = serve(app).await;
    assert_eq!(client.send(pay("first", "1")).await.code(), 200);
    client.send(pay("second", "1")).await.assert_problem(
        503,
        Some("30"),
        "too-many-records",
        "not-run",
    );
    client.send(pay("first", "1")).await.assert_replayed();
}

/// The quota of all is not used up: other principals go on.
#[tokio::test]
async fn excess_records_of_a_scope_leave_room_for_others() {
    let fixture = Fixture::new(3);
    let redlock = fixture.blue.builder().max_records(100).build().unwrap();
    let once = layer(&redlock).max_records_per_scope(3).retain(HOUR);
    let failing = post(async || StatusCode::BAD_REQUEST).layer(once.clone());
    let app = Router::new().route("/pay", post(answer).layer(once)).route("/fail", failing);
    let client = serve(app).await;
    // What frees its key does not count.
    for key in 0..10 {
        let failed = fail(&format!("failed {key}"));
        assert_eq!(client.send(failed).await.code(), 400);
    }
    for key in 0..3 {
        assert_eq!(client.send(pay(&key.to_string(), "1")).await.code(), 200);
    }

    client.send(pay("3", "1")).await.assert_problem(503, Some("30"), "too-many-records", "not-run");
    client.send(pay("0", "1")).await.assert_replayed();
    for caller in ["bob", "carol"] {
        assert_eq!(client.send(pay_as(caller, "3", "1")).await.code(), 200, "{caller}");
    }
    // At the end of the retention, and a 32nd of it, there is room again.
    fixture.clock.advance(HOUR + HOUR / 32);
    assert_eq!(client.send(pay("3", "1")).await.code(), 200);
}

fn fail(key: &str) -> Request<Body> {
    let mut request = pay(key, "");
    *request.uri_mut() = "/fail".parse().expect("a path");
    request
}
