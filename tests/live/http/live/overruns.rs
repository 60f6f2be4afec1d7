//! Polls that last beyond the end of their lock, and the responses for each version of HTTP.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{Method, StatusCode},
    routing::any,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body::Frame;
use hyper_util::{client::legacy, rt::TokioExecutor};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower_redlock::{LockContext, Redlock, RedlockLayer, layer::http::GATHER_LIMIT};

use super::{
    client::{Answer, Client, http1},
    site::{serve, soon},
};
use crate::support::HANG_GUARD;

/// Blocks its thread until the lock has ended.
fn overrun() {
    let lock = LockContext::current().expect("polled under the lock");
    while lock.ensure_valid().is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Yields `frames` frames, then overruns the lock in the next poll and returns `then`.
struct Overrunning {
    frames: usize,
    then: Option<&'static str>,
}

impl http_body::Body for Overrunning {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(frames) = self.frames.checked_sub(1) {
            self.frames = frames;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"data")))));
        }
        if LockContext::current().is_some() {
            overrun();
        }
        Poll::Ready(self.then.take().map(|text| Ok(Frame::data(text.into()))))
    }
}

fn body(frames: usize, then: Option<&'static str>) -> Body {
    Body::new(Overrunning { frames, then })
}

fn chunks(count: usize, size: usize) -> Body {
    let chunk = move |_| Ok::<_, Infallible>(Bytes::from(vec![b'x'; size]));
    Body::from_stream(stream::iter((0..count).map(chunk)))
}

fn failing() -> Body {
    let steps = [Ok(Bytes::from("data")), Err(std::io::Error::other("on purpose"))];
    Body::from_stream(stream::iter(steps))
}

/// A stream with one event, and without an end.
fn events() -> ([(&'static str, &'static str); 1], Body) {
    let event = stream::iter([Ok::<_, Infallible>(Bytes::from("data: 1\n\n"))]);
    let body = Body::from_stream(event.chain(stream::pending()));
    ([("content-type", "text/event-stream; charset=utf-8")], body)
}

async fn site() -> std::net::SocketAddr {
    let layer =
        RedlockLayer::new(Redlock::embedded(), |request: &Request| request.uri().path().to_owned())
            .max_hold(Duration::from_millis(200))
            // A client may get the end of the response before the lock is released.
            .wait(HANG_GUARD)
            .http();
    let overrun_with = |answer: &'static str| {
        async move || {
            overrun();
            answer
        }
    };
    let app = Router::new()
        .route("/empty", any(async || overrun()))
        .route("/text", any(overrun_with("some text")))
        .route("/first-frame", any(async || body(0, Some("data"))))
        .route("/second-frame", any(async || body(1, Some("data"))))
        .route("/end", any(async || body(1, None)))
        .route("/chunks", any(async || chunks(3, 4)))
        .route("/many-chunks", any(async || chunks(3, GATHER_LIMIT / 2)))
        .route("/events", any(async || events()))
        .route("/failing", any(async || failing()))
        .layer(layer);
    serve(app).await
}

/// All that the server sends.
async fn raw(addr: std::net::SocketAddr, version: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(addr).await.unwrap();
    let head = format!("GET {path} HTTP/{version}\r\nhost: a\r\nconnection: close\r\n\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A reset is an end that no client takes for a complete response.
    let _ = soon(path, connection.read_to_end(&mut answer)).await;
    String::from_utf8(answer).unwrap()
}

fn is_lost(answer: &str) -> bool {
    answer.contains(" 500 ") && answer.contains(r#""code":"lost""#) && answer.contains("unknown")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrunning_handler_gets_500() {
    let addr = site().await;
    let http2 = legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http();

    for path in ["/empty", "/text"] {
        for version in ["1.0", "1.1"] {
            let answer = raw(addr, version, path).await;
            assert!(is_lost(&answer), "{path} over {version}: {answer}");
        }
        let answer: Answer = Client::new(http2.clone(), addr).post(path).await;
        assert_eq!(answer.problem(), (500, "lost".into(), "unknown".into()), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrunning_body_is_never_complete() {
    let addr = site().await;
    let http2 = legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http();

    for path in ["/first-frame", "/second-frame", "/end"] {
        let answer = raw(addr, "1.0", path).await;
        assert!(is_lost(&answer), "{path}: nothing was sent before: {answer}");
        let answer = raw(addr, "1.1", path).await;
        // Clients retry requests that got no byte of a response.
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
        assert!(answer.contains("transfer-encoding: chunked"), "{path}: {answer}");
        assert!(!answer.ends_with("0\r\n\r\n"), "{path}: {answer}");
        let answer = Client::new(http2.clone(), addr).send(Method::GET, path).await;
        assert!(answer.is_err(), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn http_10_body_has_a_length() {
    let addr = site().await;
    let answer = raw(addr, "1.0", "/chunks").await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-length: 12\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nxxxxxxxxxxxx"), "{answer}");
    let answer = raw(addr, "1.1", "/chunks").await;
    assert!(answer.contains("transfer-encoding: chunked"), "{answer}");
}

#[tokio::test]
async fn http_10_failed_body_is_incomplete() {
    let addr = site().await;
    let answer = raw(addr, "1.0", "/failing").await;
    assert!(answer.contains("content-length: 1\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "a byte is missing: {answer}");
}

#[tokio::test]
async fn http_10_refuses_long_unsized_body() {
    let addr = site().await;
    let answer = raw(addr, "1.0", "/many-chunks").await;

    assert!(answer.contains(" 500 "), "{}", answer.len());
    assert!(answer.contains(r#""code":"response-too-large""#), "{answer}");
    assert!(answer.contains(r#""outcome":"unknown""#), "{answer}");

    // The error is due to the connection's version, not to the response's size.
    let client = Client::new(http1(), addr);
    let answer = client.send(Method::GET, "/many-chunks").await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.text.len(), 3 * (GATHER_LIMIT / 2));
}

/// No client treats the end of an event stream as the end of a complete body.
#[tokio::test]
async fn http_10_passes_event_streams() {
    let answer = raw(site().await, "1.0", "/events").await;
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\ndata: 1\n\n"), "{answer}");
}
