//! Tests of one connection, in virtual time.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use hyper_util::server::graceful::GracefulShutdown;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::{sleep, timeout},
};
use tower_redlock::{
    Redlock,
    node::{Node, NodeHealth, Op, Reply},
};
use tower_redlock_dashboard::{Access, Dashboard};

use super::{activity::Activity, server::connection};

/// A node that answers nothing.
#[derive(Debug, Default)]
struct Silent(Mutex<Vec<Reply>>);

impl Node for Silent {
    fn send(&self, _: Op, reply: Reply) {
        self.0.lock().unwrap().push(reply);
    }

    fn name(&self) -> &'static str {
        "silent"
    }

    fn health(&self) -> NodeHealth {
        NodeHealth::voting("silent")
    }
}

fn connect() -> DuplexStream {
    connect_to(Redlock::embedded())
}

fn connect_to(redlock: Redlock) -> DuplexStream {
    let access = |_: &hyper::http::request::Parts| Access::All;
    let dashboard = Dashboard::new(redlock).access(access);
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    // Its end would end the connection.
    let graceful = Box::leak(Box::new(GracefulShutdown::new()));
    let activity = Activity::new(Arc::default());
    tokio::spawn(connection(theirs, dashboard, activity, graceful));
    ours
}

/// Sends a request; whether the response begins.
async fn is_answered(stream: &mut DuplexStream) -> bool {
    let _ = stream.write_all(b"GET /style.css HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut begin = [0; 8];
    if stream.read_exact(&mut begin).await.is_err() {
        return false;
    }
    // The rest of the response, which comes at once.
    let mut rest = vec![0; 1 << 20];
    while let Ok(Ok(1..)) = timeout(Duration::from_millis(1), stream.read(&mut rest)).await {}
    begin == *b"HTTP/1.1"
}

async fn is_closed(stream: &mut DuplexStream) -> bool {
    let mut rest = [0; 64];
    matches!(timeout(Duration::from_millis(1), stream.read(&mut rest)).await, Ok(Ok(0)))
}

#[tokio::test(start_paused = true)]
async fn idle_connections_outlive_balancers() {
    let mut stream = connect();
    for _ in 0..3 {
        assert!(is_answered(&mut stream).await);
        sleep(Duration::from_secs(600)).await;
    }
    sleep(Duration::from_secs(22)).await;
    assert!(is_closed(&mut stream).await);
    let mut unused = connect();
    sleep(Duration::from_secs(12)).await;
    assert!(is_closed(&mut unused).await);
}

#[tokio::test(start_paused = true)]
async fn slow_heads_are_given_up() {
    let mut stream = connect();
    assert!(is_answered(&mut stream).await);
    sleep(Duration::from_secs(60)).await;
    stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    for _ in 0..9 {
        sleep(Duration::from_secs(1)).await;
        stream.write_all(b"a: b\r\n").await.unwrap();
    }
    assert!(!is_closed(&mut stream).await);
    sleep(Duration::from_secs(3)).await;
    assert!(is_closed(&mut stream).await);
}

/// Two of them begin like a connection over HTTP/2.
#[tokio::test(start_paused = true)]
async fn slow_beginnings_are_given_up() {
    for begun in [
        "",
        "GET /nodes HTTP/1.1\r\nHost",
        "PRI /nodes HTTP/1.1\r\nHost",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r",
    ] {
        let mut stream = connect();
        stream.write_all(begun.as_bytes()).await.unwrap();
        sleep(Duration::from_secs(12)).await;
        assert!(is_closed_after_the_rest(&mut stream).await, "{begun:?}");
    }
}

/// Opens a connection over HTTP/2: the preface, and settings (RFC 9113, section 3.4).
async fn begin_http2(mut stream: DuplexStream, settings: &[u8]) -> DuplexStream {
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    send_frame(&mut stream, 4, 0, 0, settings).await;
    assert_eq!(next_frame(&mut stream).await, 4, "the settings of the server");
    stream
}

/// `SETTINGS_INITIAL_WINDOW_SIZE` of zero: the server may send no byte of a body.
const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];

/// Sends a GET: HEADERS with `END_STREAM` and `END_HEADERS`, and the fields by HPACK's static table.
async fn send_get(to: &mut DuplexStream, path: &str) {
    let head = [&[0x82, 0x86, 0x04, u8::try_from(path.len()).unwrap()], path.as_bytes()].concat();
    send_frame(to, 1, 5, 1, &head).await;
}

/// Sends a frame (RFC 9113, section 4.1).
async fn send_frame(to: &mut DuplexStream, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[..], &[kind, flags], &stream.to_be_bytes()].concat();
    to.write_all(&[&head, payload].concat()).await.unwrap();
}

/// Receives a frame. Returns its type.
async fn next_frame(from: &mut DuplexStream) -> u8 {
    let mut head = [0; 9];
    from.read_exact(&mut head).await.expect("a frame");
    let [a, b, c, kind, ..] = head;
    let length = u32::from_be_bytes([0, a, b, c]).try_into().unwrap();
    from.read_exact(&mut vec![0; length]).await.expect("its payload");
    kind
}

/// Receives what the server has sent. Returns whether it has closed the connection.
async fn is_closed_after_the_rest(stream: &mut DuplexStream) -> bool {
    let mut rest = [0; 1024];
    loop {
        match timeout(Duration::from_millis(1), stream.read(&mut rest)).await {
            Ok(Ok(1..)) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn http2_is_spoken() {
    let mut stream = begin_http2(connect(), &[]).await;
    send_get(&mut stream, "/style.css").await;
    sleep(Duration::from_secs(60)).await;
    // A ping, after much longer than a head may take.
    send_frame(&mut stream, 6, 0, 0, b"12345678").await;
    sleep(Duration::from_secs(60)).await;
    assert!(!is_closed_after_the_rest(&mut stream).await);
}

#[tokio::test(start_paused = true)]
async fn http2_without_a_request_is_given_up() {
    let mut stream = begin_http2(connect(), &[]).await;
    sleep(Duration::from_secs(12)).await;
    assert!(is_closed_after_the_rest(&mut stream).await);
}

#[tokio::test(start_paused = true)]
async fn response_that_is_not_received_is_given_up() {
    let mut stream = begin_http2(connect(), &NO_WINDOW).await;
    send_get(&mut stream, "/style.css").await;
    sleep(Duration::from_secs(50)).await;
    assert!(!is_closed_after_the_rest(&mut stream).await);
    sleep(Duration::from_secs(12)).await;
    assert!(is_closed_after_the_rest(&mut stream).await);
}

#[tokio::test(start_paused = true)]
async fn reset_requests_end() {
    let redlock = Redlock::builder().node(Silent::default()).build().unwrap();
    let mut stream = begin_http2(connect_to(redlock), &[]).await;
    send_get(&mut stream, "/api/once?key=a").await;
    sleep(Duration::from_millis(100)).await;

    // RST_STREAM, with CANCEL.
    send_frame(&mut stream, 3, 0, 1, &8_u32.to_be_bytes()).await;

    // The connection is idle from then on.
    sleep(Duration::from_secs(622)).await;
    assert!(is_closed_after_the_rest(&mut stream).await, "the request has ended");
}
