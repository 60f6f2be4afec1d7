//! Any number of requests that read, or one that writes, in two processes over real servers.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    extract::{Path, State},
    routing::get,
};
use futures_util::future::join_all;
use http::{Method, StatusCode};
use tokio::sync::Barrier;
use tower_redlock::{LockContext, RedlockLayer};

use super::{
    client::{Client, http1},
    site::{LONG, last_segment, manager, patient, serve, soon},
};
use crate::support::RedisServer;

/// Readers that run together before one of them ends.
const TOGETHER: usize = 6;

/// What the handlers of both processes share.
#[derive(Clone)]
struct Shared {
    /// Numbers of readers and writers inside.
    inside: Arc<Mutex<(usize, usize)>>,
    together: Arc<Barrier>,
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut (usize, usize))) {
        let mut inside = self.inside.lock().unwrap();
        change(&mut inside);
        assert!(matches!(*inside, (_, 0) | (0, 1)), "readers and writers: {inside:?}");
    }
}

async fn read(State(shared): State<Shared>, Path(kind): Path<String>, lock: LockContext) -> String {
    shared.change(|inside| inside.0 += 1);
    match kind.as_str() {
        "together" => {
            shared.together.wait().await;
        }
        _ => tokio::task::yield_now().await,
    }
    shared.change(|inside| inside.0 -= 1);
    lock.fencing_token().to_string()
}

async fn write(State(shared): State<Shared>, lock: LockContext) -> String {
    shared.change(|inside| inside.1 += 1);
    tokio::task::yield_now().await;
    shared.change(|inside| inside.1 -= 1);
    lock.fencing_token().to_string()
}

struct Readers {
    _servers: Vec<RedisServer>,
    shared: Shared,
    clients: Vec<Client>,
}

impl Readers {
    /// Two processes.
    async fn open() -> Self {
        let servers = RedisServer::start_n(3);
        let (inside, together) = (Arc::default(), Arc::new(Barrier::new(TOGETHER)));
        let shared = Shared { inside, together };
        let mut clients = Vec::new();
        for _ in 0..2 {
            let redlock = manager(&servers, patient()).await;
            let layer = RedlockLayer::new(redlock, last_segment).wait(LONG).http();
            let layer = layer.shared_for(|head| head.method().is_safe());
            let app =
                Router::new().route("/{kind}", get(read).put(write)).with_state(shared.clone());
            clients.push(Client::new(http1(), serve(app.layer(layer)).await));
        }
        Self { _servers: servers, shared, clients }
    }

    /// Sends a request, and returns its token.
    async fn send(&self, process: usize, method: Method, path: &str) -> u64 {
        let answer = self.clients[process].send(method, path).await.expect("an answer");
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        answer.text.parse().expect("a token")
    }
}

#[tokio::test]
async fn readers_of_two_processes_run_side_by_side() {
    let site = Readers::open().await;

    let readers = (0..TOGETHER).map(|i| site.send(i % 2, Method::GET, "/together"));
    let readers = soon("all readers", join_all(readers)).await;

    let written = soon("the writer", site.send(1, Method::PUT, "/together")).await;
    assert!(readers.iter().all(|read| *read < written), "{readers:?} {written}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crowd_of_readers_and_writers_never_overlaps() {
    let site = Readers::open().await;

    let requests = (0..200).map(|i| {
        let method = if i % 5 == 0 { Method::PUT } else { Method::GET };
        site.send(i % 2, method, "/crowd")
    });
    let tokens = soon("all requests", join_all(requests)).await;

    let mut writers: Vec<_> = tokens.into_iter().step_by(5).collect();
    writers.sort_unstable();
    assert!(writers.is_sorted_by(|a, b| a < b), "each writer has its own token: {writers:?}");
    assert_eq!(*site.shared.inside.lock().unwrap(), (0, 0));
}
