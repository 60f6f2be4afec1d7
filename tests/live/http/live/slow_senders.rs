//! Clients that send a body slowly, or not at all.

use std::{net::SocketAddr, time::Duration};

use axum::{Router, body::Bytes, extract::Request, routing::any};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower_redlock::{Redlock, RedlockLayer, reject::Rejection};

use super::site::{LONG, serve, soon};

const LIMIT: usize = 64;

/// The key is the path; `/free` needs no lock.
fn key(request: &Request) -> Option<String> {
    let path = request.uri().path();
    (path != "/free").then(|| path.to_owned())
}

async fn site(body_timeout: Duration) -> (Redlock, SocketAddr) {
    let redlock = Redlock::embedded();
    let layer = RedlockLayer::new(redlock.clone(), key)
        .http()
        .read_body_first(LIMIT)
        .body_timeout(body_timeout);
    let app = Router::new().fallback(any(async |body: Bytes| body)).layer(layer);
    (redlock, serve(app).await)
}

/// Sends a head that announces `length` bytes, and `sent` of them.
async fn send(addr: SocketAddr, path: &str, length: usize, sent: &str) -> TcpStream {
    let mut connection = TcpStream::connect(addr).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    connection.write_all(format!("{head}{sent}").as_bytes()).await.unwrap();
    connection
}

async fn answer(mut connection: TcpStream) -> String {
    let mut answer = Vec::new();
    // The end may be a reset, as the server did not read all data.
    let _ = soon("an answer", connection.read_to_end(&mut answer)).await;
    String::from_utf8(answer).unwrap()
}

#[track_caller]
fn assert_problem(answer: &str, status: u16, code: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(answer.contains(&format!(r#""code":"{code}""#)), "{answer}");
    assert!(answer.contains(r#""outcome":"not-run""#), "{answer}");
}

#[tokio::test]
async fn idle_sender_blocks_no_request() {
    let (redlock, addr) = site(LONG).await;
    let idle = send(addr, "/a", 10, "half").await;

    for _ in 0..3 {
        let complete = answer(send(addr, "/a", 4, "done").await).await;
        assert!(complete.starts_with("HTTP/1.1 200 ") && complete.ends_with("done"), "{complete}");
    }

    assert!(redlock.inspect("/a").await.unwrap().is_none());

    let mut idle = idle;
    idle.write_all(b"-other").await.unwrap();
    let complete = answer(idle).await;
    assert!(complete.ends_with("half-other"), "the body is handed on whole: {complete}");
}

#[tokio::test]
async fn slow_body_is_408() {
    let (redlock, addr) = site(Duration::from_millis(200)).await;
    assert_problem(&answer(send(addr, "/a", 10, "half").await).await, 408, "body-timed-out");
    assert!(redlock.inspect("/a").await.unwrap().is_none());
}

#[tokio::test]
async fn large_body_is_413() {
    let (_, addr) = site(LONG).await;
    let announced = send(addr, "/a", LIMIT + 1, "").await;
    assert_problem(&answer(announced).await, 413, "body-too-large");
    let fits = "x".repeat(LIMIT);
    assert!(answer(send(addr, "/a", LIMIT, &fits).await).await.ends_with(&fits));
}

#[tokio::test]
async fn an_unguarded_request_is_not_read() {
    let (_, addr) = site(LONG).await;
    let large = "x".repeat(LIMIT + 1);
    assert!(answer(send(addr, "/free", LIMIT + 1, &large).await).await.ends_with(&large));
}

#[tokio::test]
async fn bad_key_is_refused_before_body() {
    let no_key = |_: &Request| "";
    let layer = RedlockLayer::new(Redlock::embedded(), no_key).http().read_body_first(LIMIT);
    let addr = serve(Router::new().fallback(any(async || ())).layer(layer)).await;
    assert_problem(&answer(send(addr, "/", 10, "half").await).await, 400, "bad-key");
}

#[tokio::test]
async fn on_reject_handles_rejected_bodies() {
    let layer = RedlockLayer::new(Redlock::embedded(), key)
        .http()
        .read_body_first(LIMIT)
        .on_reject(|rejection: Rejection<'_>| {
            let name = rejection.resource().map(ToString::to_string);
            rejection.response().map(|_| format!("{} {name:?}", rejection.code()).into())
        });
    let addr = serve(Router::new().fallback(any(async || ())).layer(layer)).await;

    let refused = answer(send(addr, "/a", LIMIT + 1, "").await).await;

    assert!(refused.ends_with(r#"body-too-large Some("/a")"#), "{refused}");
}
