//! Requests, and layers for them.

use axum::{Router, body::Body};
use http::Request;
use tower_redlock::{
    OnceLayer, Redlock, key,
    key::{Header, Key},
    once::{
        Always, MemoryStore, UnknownOutcome,
        http::{Idempotency, OnceHttp, ServerErrors},
    },
    reject::DefaultResponse,
};

use crate::client::Client;
use crate::once_http::fixture::serve;

pub(crate) type Layer = OnceLayer<Key<Header>, Always, OnceHttp<DefaultResponse, Idempotency>>;

/// The scope of keys is `x-caller`: in production, a principal that a client can't choose.
pub(crate) fn layer(redlock: &Redlock) -> Layer {
    OnceLayer::idempotency(redlock.clone(), "pay").scope(key::header("x-caller"))
}

/// Frees the key of a request whose outcome is unknown, unlike the default.
pub(crate) fn freeing(redlock: &Redlock) -> Layer {
    layer(redlock).unknown(UnknownOutcome::Release).server_errors(ServerErrors::Release)
}

pub(super) fn stored(redlock: &Redlock, store: &MemoryStore) -> Layer {
    layer(redlock).store(store.clone())
}

/// Servers of two replicas, each with its own layer.
pub(super) async fn both(app: &Router, on_nodes: [&Redlock; 2]) -> (Client, Client) {
    let [blue, green] = on_nodes.map(|redlock| app.clone().route_layer(layer(redlock)));
    (serve(blue).await, serve(green).await)
}

pub(crate) fn pay(key: &str, body: impl Into<Body>) -> Request<Body> {
    pay_as("alice", key, body)
}

pub(super) fn pay_as(caller: &str, key: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post("/pay?now=1")
        // The same at all replicas, whatever their addresses.
        .header("host", "pay.example")
        .header("x-caller", caller)
        .header("idempotency-key", key)
        .body(body.into())
        .expect("a request")
}
