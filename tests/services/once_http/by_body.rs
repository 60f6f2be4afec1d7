//! Webhooks whose key is in the body.

use std::{convert::Infallible, time::Duration};

use axum::{Router, body::Body, extract::Request, routing::post};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body::Frame;
use http_body_util::{BodyExt, channel::Channel};
use tower::{Layer, ServiceExt};
use tower_redlock::{LockContext, once::http::Missing};

use crate::client::Client;
use crate::once_http::fixture::{Fixture, Runs, events, serve, soon};
use crate::once_http::idempotency;

/// Echoes the body, with headers on the lock and on the request's body.
fn echo(runs: &Runs) -> Router {
    let runs = runs.clone();
    Router::new().route(
        "/hook",
        post(async move |lock: Option<LockContext>, request: Request| {
            runs.run();
            let length = request.headers().get("content-length").cloned();
            let hint = http_body::Body::size_hint(request.body()).exact();
            let collected = request.into_body().collect().await.unwrap();
            let trailer =
                collected.trailers().map_or("none", |of| of["x-sum"].to_str().unwrap()).to_owned();
            let name = lock.map_or("none".into(), |lock| lock.resource().to_string());
            let body = collected.to_bytes();
            // HTTP/1 has no trailers behind a body of a known length.
            assert_eq!(hint, (trailer == "none").then_some(body.len() as u64));
            let length = length.map_or("none".into(), |length| length.to_str().unwrap().to_owned());
            ([("x-name", name), ("x-length", length), ("x-trailer", trailer)], body)
        }),
    )
}

async fn fixture(missing: Missing) -> (Fixture, Client) {
    let fixture = Fixture::new(3);
    let layer = events(&fixture.at_blue).body_limit(100).missing(missing);
    let client = serve(echo(&fixture.runs).route_layer(layer)).await;
    (fixture, client)
}

fn hook(body: impl Into<Body>) -> Request {
    Request::post("/hook").body(body.into()).unwrap()
}

#[tokio::test]
async fn handler_gets_the_intact_body() {
    let (fixture, client) = fixture(Missing::Reject).await;
    let body = br#"{ "x" : 1, "id":"evt_1"}  "#;
    let first = client.send(hook(&body[..])).await;
    assert_eq!((first.code(), &first.body[..]), (200, &body[..]));
    assert_eq!(first.header("x-name"), Some("once:layer:hook:evt_1"));
    assert_eq!(first.header("x-length"), Some("26"));
    client.send(hook(r#"{"id":"evt_1"}"#)).await.assert_duplicate();
    assert_eq!(client.send(hook(r#"{"id":"evt_2"}"#)).await.code(), 200);
    assert_eq!(fixture.runs.count(), 2);
}

#[tokio::test]
async fn chunked_body_keeps_its_trailers() {
    let (_site, client) = fixture(Missing::Reject).await;
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    let mut request = hook(Body::new(body));
    request.headers_mut().insert("trailer", "x-sum".parse().unwrap());
    request.headers_mut().insert("te", "trailers".parse().unwrap());
    let answer = tokio::spawn(async move { client.send(request).await });
    for piece in [r#"{"a":"#, r#"[1,2],"i"#, r#"d":"evt_1"}"#] {
        sender.send_data(piece.into()).await.unwrap();
    }
    let trailers = http::HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]);
    sender.send(Frame::trailers(trailers)).await.unwrap();
    drop(sender);
    let answer = soon("the answer", answer).await.unwrap();
    assert_eq!(answer.body, r#"{"a":[1,2],"id":"evt_1"}"#);
    assert_eq!(answer.header("x-name"), Some("once:layer:hook:evt_1"));
    assert_eq!(answer.header("x-trailer"), Some("7"));
}

#[tokio::test]
async fn large_bodies_are_413() {
    let (fixture, client) = fixture(Missing::Run).await;
    let exact = format!(r#"{{"id":"e","x":"{}"}}"#, "x".repeat(100 - 17));
    assert_eq!(exact.len(), 100);
    assert_eq!(client.send(hook(exact.clone())).await.body, exact);
    let larger = format!("{exact} ");
    client.send(hook(larger.clone())).await.assert_problem(413, None, "body-too-large", "not-run");
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    let piecewise = tokio::spawn(async move {
        for piece in [&larger[..50], &larger[50..]] {
            let _ = sender.send_data(piece.to_owned().into()).await;
        }
    });
    client.send(hook(Body::new(body))).await.assert_problem(413, None, "body-too-large", "not-run");
    piecewise.await.unwrap();
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn invalid_json_is_always_400() {
    for missing in [Missing::Reject, Missing::Run] {
        let (fixture, client) = fixture(missing).await;
        for body in ["{", r#"{"id":"a"} x"#, r#"{"id":"a","id":"b"}"#, r#"{"id":1.5}"#] {
            client.send(hook(body)).await.assert_bad_key();
        }
        assert_eq!(fixture.runs.count(), 0);
        // How an endpoint is tried out: without an event, or without a body.
        for body in ["{}", r#"{"type":"url_verification","challenge":"x"}"#, ""] {
            let answer = client.send(hook(body)).await;
            if missing == Missing::Run {
                assert_eq!((&answer.body[..], answer.code()), (body.as_bytes(), 200));
            } else {
                answer.assert_bad_key();
            }
        }
    }
}

/// A layer outside decodes the bodies; without it the response names what is missing.
#[tokio::test]
async fn encoded_bodies_name_their_encoding() {
    let (fixture, client) = fixture(Missing::Run).await;
    let mut request = hook(&b"\x1f\x8b\x08\x00"[..]);
    request.headers_mut().insert("content-encoding", "gzip".parse().unwrap());

    let answer = client.send(request).await;

    answer.assert_bad_key();
    let text = String::from_utf8_lossy(&answer.body);
    assert!(text.contains("encoded as gzip") && text.contains("decompression"), "{text}");
    assert_eq!(fixture.runs.count(), 0);
}

#[tokio::test]
async fn aborted_body_leaves_nothing() {
    let (fixture, client) = fixture(Missing::Reject).await;
    let (mut sender, body) = Channel::<Bytes, std::io::Error>::new(1);
    let broken = tokio::spawn(async move { client.try_send(hook(Body::new(body))).await });
    sender.send_data(r#"{"id":"#.into()).await.unwrap();
    sender.abort(std::io::Error::other("on purpose"));
    assert!(soon("the end", broken).await.unwrap().is_err());
    fixture.is_free().await;
    assert_eq!(fixture.runs.count(), 0);
}

#[tokio::test]
async fn failed_body_is_400() {
    let fixture = Fixture::new(3);
    let service = tower::service_fn(async |_: Request<_>| {
        panic!("it does not run");
        #[allow(unreachable_code, reason = "for its type")]
        Ok::<_, Infallible>(http::Response::new(Body::empty()))
    });
    let layer = events(&fixture.at_blue);
    let (mut sender, body) = Channel::<Bytes, std::io::Error>::new(2);
    sender.send_data("{".into()).await.unwrap();
    sender.abort(std::io::Error::other("on purpose"));
    let answer = layer.layer(service).oneshot(hook(Body::new(body))).await.unwrap();
    assert_eq!(answer.status(), 400);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["code"], "body-failed");
}

/// A body that does not end times out.
fn assert_times_out(
    fixture: &Fixture,
    call: impl Future<Output = Result<http::Response<impl http_body::Body>, Infallible>>,
    after: Duration,
) {
    let mut call = Box::pin(call);
    assert!(call.as_mut().now_or_never().is_none());
    fixture.clock.advance(after.saturating_sub(Duration::from_millis(1)));
    assert!(call.as_mut().now_or_never().is_none(), "it may come still");
    fixture.clock.advance(Duration::from_millis(1));
    let answer = call.now_or_never().expect("it is given up").unwrap();
    assert_eq!(answer.status(), 408);
    let body = answer.into_body().collect().now_or_never().unwrap();
    let body = body.unwrap_or_else(|_| panic!("it does not fail")).to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (&problem["code"], &problem["outcome"]),
        (&"body-timed-out".into(), &"not-run".into())
    );
}

#[test]
fn slow_body_is_408() {
    let fixture = Fixture::new(3);
    let never = tower::service_fn(|_: http::Request<tower_redlock::once::RestoredBody<Body>>| {
        panic!("it does not run");
        #[allow(unreachable_code, reason = "for its type")]
        std::future::ready(Ok::<_, Infallible>(http::Response::new(Body::empty())))
    });
    for timeout in [None, Some(Duration::from_secs(2))] {
        let by_body = events(&fixture.at_blue);
        let idempotency = idempotency::requests::layer(&fixture.at_blue);
        let (by_body, idempotency) = match timeout {
            Some(timeout) => (by_body.body_timeout(timeout), idempotency.body_timeout(timeout)),
            None => (by_body, idempotency),
        };
        let timeout = timeout.unwrap_or(tower_redlock::layer::http::DEFAULT_BODY_TIMEOUT);
        let (_sender, body) = Channel::<Bytes, std::io::Error>::new(1);
        assert_times_out(&fixture, by_body.layer(never).oneshot(hook(Body::new(body))), timeout);
        let (_sender, body) = Channel::<Bytes, std::io::Error>::new(1);
        let request = idempotency::requests::pay("k", Body::new(body));
        assert_times_out(&fixture, idempotency.layer(never).oneshot(request), timeout);
    }
    assert_eq!(fixture.nodes.key_counts(), [0; 3]);
}

#[tokio::test]
async fn token_header_can_not_be_forged() {
    let fixture = Fixture::new(3);
    let layer = events(&fixture.at_blue).missing(Missing::Run).token_header("x-token");
    let tell = |headers: http::HeaderMap| async move {
        headers.get("x-token").map_or("none", |token| token.to_str().unwrap()).to_owned()
    };
    let client = serve(Router::new().route("/hook", post(tell)).route_layer(layer)).await;
    let forged = |body: &'static str| {
        let mut request = hook(body);
        request.headers_mut().insert("x-token", "7".parse().unwrap());
        request
    };
    assert_eq!(client.send(forged("{}")).await.body, "none");
    let token = client.send(forged(r#"{"id":"a"}"#)).await.body;
    assert!(token != "none" && token != "7", "{token:?}");
}
