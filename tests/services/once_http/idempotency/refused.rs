//! Requests that are rejected.

use std::{convert::Infallible, future::pending};

use axum::{Router, body::Body, routing::post};
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, Request};
use http_body::Frame;
use http_body_util::{BodyExt, channel::Channel};
use tower_redlock::{
    LockContext,
    once::{UnknownOutcome, http::Missing},
};

use super::requests::{layer, pay};
use crate::once_http::fixture::{Fixture, HOUR, Runs, TTL, serve, soon};

/// Responds with the request's body and its trailer.
fn echo(runs: &Runs) -> Router {
    let runs = runs.clone();
    let echo = async move |lock: Option<LockContext>,
                           headers: HeaderMap,
                           request: Request<Body>| {
        runs.run();
        let token = headers.get("x-token").map(|token| token.to_str().unwrap().to_owned());
        assert_eq!(lock.map(|lock| lock.fencing_token().to_string()), token);
        let body = request.into_body().collect().await.unwrap();
        let trailer = body.trailers().map_or("none", |of| of["x-sum"].to_str().unwrap()).to_owned();
        ([("x-trailer", trailer)], body.to_bytes())
    };
    Router::new().route("/pay", post(echo.clone()).put(echo.clone())).route("/other", post(echo))
}

#[tokio::test]
async fn reused_key_is_422() {
    let fixture = Fixture::new(3);
    let client =
        serve(echo(&fixture.runs).route_layer(layer(&fixture.at_blue).token_header("x-token")))
            .await;
    assert_eq!(client.send(pay("k", "3 EUR")).await.body, "3 EUR");
    let mut put = pay("k", "3 EUR");
    *put.method_mut() = http::Method::PUT;
    let with_uri = |uri: &str| {
        let mut request = pay("k", "3 EUR");
        *request.uri_mut() = uri.parse().unwrap();
        request
    };
    let others =
        [pay("k", "30 EUR"), pay("k", ""), put, with_uri("/other?now=1"), with_uri("/pay")];
    for other in others {
        client.send(other).await.assert_key_reused();
    }
    let mut again = pay("k", "3 EUR");
    again.headers_mut().insert("traceparent", "anew".parse().unwrap());
    client.send(again).await.assert_replay_of("3 EUR");
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn missing_key_is_400_by_default() {
    let fixture = Fixture::new(3);
    let (runs, once) = (&fixture.runs, layer(&fixture.at_blue).token_header("x-token"));
    let strict = serve(echo(runs).route_layer(once.clone())).await;
    let lenient = serve(echo(runs).route_layer(once.missing(Missing::Run))).await;
    let bare = || {
        let mut request = pay("k", "body");
        request.headers_mut().remove("idempotency-key");
        // Only the layer sets the token.
        request.headers_mut().insert("x-token", "7".parse().unwrap());
        request
    };
    strict.send(bare()).await.assert_bad_key();
    for _ in 0..2 {
        assert_eq!(lenient.send(bare()).await.body, "body");
    }
    for bad in ["", "a, b", "\"a", &"x".repeat(256)] {
        lenient.send(pay(bad, "")).await.assert_bad_key();
    }
    assert_eq!(fixture.runs.count(), 2);
}

#[tokio::test]
async fn bodies_are_bounded_and_arrive_intact() {
    let fixture = Fixture::new(3);
    let once = layer(&fixture.at_blue).body_limit(10).token_header("x-token");
    let client = serve(echo(&fixture.runs).route_layer(once)).await;
    client.send(pay("k", "12345678901")).await.assert_problem(
        413,
        None,
        "body-too-large",
        "not-run",
    );
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    let mut request = pay("k", Body::new(body));
    request.headers_mut().insert("trailer", "x-sum".parse().unwrap());
    let answer = tokio::spawn(async move { (client.send(request).await, client) });
    for piece in ["12345", "67890"] {
        sender.send_data(piece.into()).await.unwrap();
    }
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]);
    sender.send(Frame::trailers(trailers)).await.unwrap();
    drop(sender);
    let (answer, client) = soon("the answer", answer).await.unwrap();
    assert_eq!((&answer.body[..], answer.header("x-trailer")), (&b"1234567890"[..], Some("7")));
    // The same bytes in one piece are the same request.
    client.send(pay("k", "1234567890")).await.assert_replayed();
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn unknown_outcome_is_not_done() {
    let fixture = Fixture::new(3);
    let runs = fixture.runs.clone();
    let app = Router::new().route(
        "/pay",
        post(async move || {
            runs.run();
            pending::<()>().await;
        }),
    );
    let once = |redlock| layer(redlock).unknown(UnknownOutcome::Hold(HOUR));
    let blue = serve(app.clone().route_layer(once(&fixture.at_blue))).await;
    let green = serve(app.route_layer(once(&fixture.at_green))).await;

    fixture.nodes.stop(0..2);
    blue.send(pay("k", "")).await.assert_problem(503, Some("1"), "no-quorum", "not-run");
    fixture.nodes.start(0..2);
    let lost = blue.spawn(pay("k", ""));
    fixture.runs(1).await;
    fixture.blue.partition(0..3);
    fixture.clock.advance(TTL);
    let lost = soon("the answer", lost).await.unwrap();
    lost.assert_problem(500, None, "lost", "unknown");
    green.send(pay("k", "")).await.assert_unknown_outcome();
    // A person finds out that it was done; the response is lost.
    let name = "idempotency:pay://pay.example/5:alice:k";
    fixture.at_green.once_key(name).mark_done().now_or_never().expect("at once").unwrap();
    green.send(pay("k", "")).await.assert_not_kept();
    assert_eq!(fixture.runs.count(), 1);
}
