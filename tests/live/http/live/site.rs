//! HTTP servers whose requests to `/{what}/{key}` run one at a time per key, over three real
//! servers.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
    routing::any,
};
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use tokio::net::TcpListener;
use tower_redlock::{LockContext, Redlock, RedlockBuilder, RedlockLayer};

use super::{
    client::{Client, http1},
    log::Log,
};
use crate::support::{RedisServer, connected, eventually_async, over, urls};
pub(super) use crate::{
    handlers::soon,
    support::{LONG, patient},
};

pub(super) type StreamError = std::io::Error;

pub(super) struct Site {
    pub(super) servers: Vec<RedisServer>,
    /// The managers, one for each replica.
    pub(super) managers: Vec<Redlock>,
    pub(super) clients: Vec<Client>,
    pub(super) shared: Shared,
}

#[derive(Clone, Default)]
pub(super) struct Shared {
    pub(super) log: Log,
    /// The response body of the next request for a stream.
    next_stream: Arc<Mutex<Option<Channel<Bytes, StreamError>>>>,
}

pub(super) async fn manager(servers: &[RedisServer], builder: RedlockBuilder) -> Redlock {
    connected(over(builder, urls(servers))).await
}

impl Site {
    pub(super) async fn open(replicas: usize, builder: impl Fn() -> RedlockBuilder) -> Self {
        let servers = RedisServer::start_n(3);
        let mut managers = Vec::new();
        for _ in 0..replicas {
            managers.push(manager(&servers, builder()).await);
        }
        Self::with(servers, managers).await
    }

    pub(super) async fn with(servers: Vec<RedisServer>, managers: Vec<Redlock>) -> Self {
        let (shared, mut clients) = (Shared::default(), Vec::new());
        for redlock in &managers {
            let layer = RedlockLayer::new(redlock.clone(), last_segment).wait(LONG).http();
            let addr = serve(router(shared.clone()).layer(layer)).await;
            clients.push(Client::new(http1(), addr));
        }
        Self { servers, managers, clients, shared }
    }

    pub(super) fn client(&self) -> &Client {
        &self.clients[0]
    }

    /// Returns the sender of the body of the next `/stream/…`.
    pub(super) fn next_stream(&self) -> Sender<Bytes, StreamError> {
        let (sender, body) = Channel::new(16);
        *self.shared.next_stream.lock().unwrap() = Some(body);
        sender
    }

    pub(super) async fn entered(&self, count: usize) {
        eventually_async("the handler runs", async || self.shared.log.entered() == count).await;
    }

    pub(super) fn is_held(&self, key: &str) -> bool {
        self.servers.iter().all(|server| server.pttl(&format!("redlock:lock:{key}")) > 0)
    }

    pub(super) async fn held(&self, key: &str) {
        eventually_async("every server keeps the key", async || self.is_held(key)).await;
    }

    pub(super) async fn all_keys_gone(&self) {
        eventually_async("no server keeps a lock key", async || {
            self.servers.iter().all(|server| server.keys("redlock:lock:*").is_empty())
        })
        .await;
    }
}

pub(super) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    addr
}

pub(super) fn last_segment(request: &Request) -> Option<String> {
    request.uri().path().rsplit_once('/').map(|(_, key)| key.to_owned())
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/token/{key}", any(token))
        .route("/stuck/{key}", any(stuck))
        .route("/busy/{key}", any(busy))
        .route("/panic/{key}", any(panic))
        .route("/stream/{key}", any(stream))
        .with_state(shared)
}

pub(super) async fn token(
    State(shared): State<Shared>,
    Path(key): Path<String>,
    lock: Option<LockContext>,
) -> String {
    let token = lock.map_or(0, |lock| lock.fencing_token().get());
    let _inside = shared.log.enter(&key, token);
    tokio::time::sleep(Duration::from_millis(1)).await;
    token.to_string()
}

async fn stuck(State(shared): State<Shared>, Path(key): Path<String>, lock: LockContext) {
    let _inside = shared.log.enter(&key, lock.fencing_token().get());
    std::future::pending::<()>().await;
}

/// Needs a poll every few milliseconds, and does not end.
async fn busy(State(shared): State<Shared>, Path(key): Path<String>, lock: LockContext) {
    let _inside = shared.log.enter(&key, lock.fencing_token().get());
    loop {
        shared.log.polled();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn panic(State(shared): State<Shared>, Path(key): Path<String>, lock: LockContext) {
    let _inside = shared.log.enter(&key, lock.fencing_token().get());
    panic!("on purpose");
}

async fn stream(
    State(shared): State<Shared>,
    Path(key): Path<String>,
    lock: LockContext,
) -> Response {
    let _inside = shared.log.enter(&key, lock.fencing_token().get());
    let body = shared.next_stream.lock().unwrap().take().expect("the test gave a stream");
    Body::new(body).into_response()
}
