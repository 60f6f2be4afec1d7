//! Web sockets behind a layer around all routes.

use std::net::SocketAddr;

use axum::{
    Router,
    extract::{WebSocketUpgrade, ws::WebSocket},
    response::Response,
    routing::any,
};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{Method, Request, StatusCode, Version};
use http_body_util::Empty;
use hyper::{body::Incoming, client::conn::http2::SendRequest, ext::Protocol};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol::Role};

use super::requests::layer;
use crate::once_http::fixture::{Fixture, serve};

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if socket.send(message).await.is_err() {
            return;
        }
    }
}

fn app() -> Router {
    let upgrade = async |upgrade: WebSocketUpgrade| -> Response { upgrade.on_upgrade(echo) };
    Router::new().route("/ws", any(upgrade)).route("/free", any(async || ""))
}

/// A connection over HTTP/2 whose server takes extended CONNECTs (RFC 8441).
async fn http2(addr: SocketAddr) -> SendRequest<Empty<Bytes>> {
    let stream = TokioIo::new(TcpStream::connect(addr).await.unwrap());
    let connected = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await;
    let (mut sender, connection) = connected.unwrap();
    tokio::spawn(connection);
    // The server's settings come before its first answer.
    let free = Request::get(format!("http://{addr}/free")).body(Empty::new()).unwrap();
    assert_eq!(sender.send_request(free).await.unwrap().status(), StatusCode::OK);
    sender
}

async fn connect(addr: SocketAddr) -> http::Response<Incoming> {
    connect_with(addr, None).await
}

pub(crate) async fn connect_with(addr: SocketAddr, key: Option<&str>) -> http::Response<Incoming> {
    let mut request = Request::connect(format!("http://{addr}/ws"))
        .header("sec-websocket-version", "13")
        .header("x-caller", "alice");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let mut request = request.body(Empty::new()).unwrap();
    request.extensions_mut().insert(Protocol::from_static("websocket"));
    http2(addr).await.send_request(request).await.unwrap()
}

#[tokio::test]
async fn http2_connect_passes_without_key() {
    let fixture = Fixture::new(3);
    let client = serve(app().layer(layer(&fixture.at_blue))).await;
    let answer = connect(client.addr()).await;
    assert_eq!((answer.version(), answer.status()), (Version::HTTP_2, StatusCode::OK));
    let upgraded = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
    socket.send("hello".into()).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap().into_text().unwrap().as_str(), "hello");
}

#[tokio::test]
async fn connect_needs_a_key_if_named() {
    let fixture = Fixture::new(3);
    let once = layer(&fixture.at_blue).methods([Method::CONNECT]);
    let client = serve(app().layer(once)).await;
    assert_eq!(connect(client.addr()).await.status(), StatusCode::BAD_REQUEST);
}
