//! Connections that a response upgrades: a newer token could not stop their sessions.

use std::net::SocketAddr;

use axum::{
    Router,
    extract::Request,
    routing::{MethodRouter, any},
};
use tokio::net::TcpStream;
use tower_redlock::FencingLayer;

use crate::client::serve;
use crate::handlers::{self, Session, is_closed_after, soon};

async fn serve_fenced(handler: MethodRouter) -> SocketAddr {
    let layer = FencingLayer::new(|_: &Request| "file").http();
    let routes = Router::new().route("/ws", handler).route("/write", any(async || "written"));
    serve(routes.route_layer(layer)).await.addr()
}

async fn ask(addr: SocketAddr, path: &str, connection: &str, token: u64) -> TcpStream {
    let token = format!("fencing-token: {token}\r\n");
    handlers::ask(addr, path, connection, &token, "").await
}

#[tokio::test]
async fn session_of_fenced_request_never_begins() {
    for connection in ["Upgrade", "Upgrade, close"] {
        let (handler, mut sessions) = handlers::unguarded();
        let addr = serve_fenced(handler).await;

        let stream = ask(addr, "/ws", connection, 7).await;

        is_closed_after(500, "upgrade-unguarded", stream).await;
        let end = soon("the session's end", sessions.recv()).await;
        assert_eq!(end, Some(Session::Dropped), "{connection}");
    }
}

#[tokio::test]
async fn session_of_overtaken_request_never_begins() {
    let (handler, mut sessions) = handlers::stuck();
    let addr = serve_fenced(handler).await;
    let overtaken = ask(addr, "/ws", "Upgrade, close", 7).await;
    assert_eq!(soon("the handler", sessions.recv()).await, Some(Session::Taken));

    let _newer = ask(addr, "/write", "close", 8).await;

    is_closed_after(412, "stale-token", overtaken).await;
    assert_eq!(soon("the session's end", sessions.recv()).await, Some(Session::Dropped));
}
