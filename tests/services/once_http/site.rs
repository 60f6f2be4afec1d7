//! Servers of two replicas over nodes of one process, and handlers that count their runs.

use std::{future::Future, time::Duration};

use axum::{Router, body::Body};
use http::Request;
use tokio::net::TcpListener;

use crate::once_http::client::Client;
use crate::support::{HANG_GUARD, eventually_async};

pub(crate) use crate::pair::{Pair as Site, Runs};

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

impl Site {
    pub(crate) async fn runs(&self, count: usize) {
        eventually_async("the handler runs", async || self.runs.count() == count).await;
    }

    /// No node keeps a lock or a record.
    pub(crate) async fn is_free(&self) {
        eventually_async("all is free", async || self.nodes.key_counts() == [0; 3]).await;
    }
}

pub(crate) async fn serve(app: Router) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, app).await.expect("it serves for ever") });
    Client::new(addr)
}

/// A webhook with this id.
pub(crate) fn hook(id: &str) -> Request<Body> {
    Request::post("/hook").header("webhook-id", id).body(Body::empty()).expect("a request")
}

/// Fails after a timeout.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(HANG_GUARD * 6, future)
        .await
        .unwrap_or_else(|_| panic!("still waiting: {what}"))
}
