//! Handlers that upgrade connections, and clients that ask for it.

use std::{future::Future, net::SocketAddr};

use axum::{
    extract::ws::{WebSocket, WebSocketUpgrade},
    response::Response,
    routing::{MethodRouter, any},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

/// What happens to a session that a handler passed to `on_upgrade`.
#[derive(Debug, PartialEq)]
pub(crate) enum Session {
    /// A handler that does not respond has the connection.
    Taken,
    Began,
    Dropped,
}

pub(crate) type Sessions = UnboundedReceiver<Session>;

struct Waiting(UnboundedSender<Session>);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.send(Session::Dropped);
    }
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if socket.send(message).await.is_err() {
            return;
        }
    }
}

/// Upgrades the connection, and reports what happens to its session.
pub(crate) fn upgraded(upgrade: WebSocketUpgrade, sessions: UnboundedSender<Session>) -> Response {
    let waiting = Waiting(sessions);
    upgrade.on_upgrade(move |socket| async move {
        let _ = waiting.0.send(Session::Began);
        echo(socket).await;
    })
}

/// A handler that upgrades each connection, and its sessions.
pub(crate) fn unguarded() -> (MethodRouter, Sessions) {
    let (sender, sessions) = unbounded_channel();
    let handler = async move |upgrade: WebSocketUpgrade| upgraded(upgrade, sender);
    (any(handler), sessions)
}

/// A handler that takes the connection, and does not respond.
pub(crate) fn stuck() -> (MethodRouter, Sessions) {
    let (sender, sessions) = unbounded_channel();
    let handler = async move |upgrade: WebSocketUpgrade| {
        let _response = upgraded(upgrade, sender.clone());
        let _ = sender.send(Session::Taken);
        std::future::pending::<Response>().await
    };
    (any(handler), sessions)
}

/// Asks for an upgrade to a websocket, with these further lines of the head and this body.
pub(crate) async fn ask(
    addr: SocketAddr,
    path: &str,
    connection: &str,
    lines: &str,
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.expect("the server listens");
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: {connection}\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n{body}"
    );
    stream.write_all(head.as_bytes()).await.expect("the request is sent");
    stream
}

/// Checks that the response is a complete problem with this status and code, and that the server closes
/// the connection.
pub(crate) async fn is_closed_after(status: u16, code: &str, mut stream: TcpStream) {
    let mut answer = String::new();
    let read = soon("the connection's end", stream.read_to_string(&mut answer)).await;
    read.expect("the connection ends without an error");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    assert!(head.contains("connection: close"), "{head}");
    let problem: serde_json::Value = serde_json::from_str(body).expect("the whole body");
    assert_eq!((&problem["code"], &problem["outcome"]), (&code.into(), &"unknown".into()));
}

/// Fails after a timeout.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    let guard = std::time::Duration::from_secs(60);
    let result = tokio::time::timeout(guard, future).await;
    result.unwrap_or_else(|_| panic!("still waiting: {what}"))
}
