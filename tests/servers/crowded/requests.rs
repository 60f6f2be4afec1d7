//! Requests over HTTP, to two replicas over real servers.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{Router, body::Body, extract::State, routing::post};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tower_redlock::{
    OnceLayer, Redlock,
    once::{
        Always, MemoryStore, UnknownOutcome,
        http::{Idempotency, OnceHttp, Scope, ServerErrors},
    },
    reject::DefaultResponse,
};

use crate::fixture::{Fixture, patient, serve};

const KEYS: usize = 20;
const DUPLICATES: usize = 50;

/// Number of successful runs for each event. Every third run fails.
#[derive(Clone, Default)]
struct Effects(Arc<HashMap<String, AtomicUsize>>, Arc<AtomicUsize>);

impl Effects {
    fn new() -> Self {
        let effects = (0..KEYS).map(|key| (format!("evt-{key}"), AtomicUsize::new(0)));
        Self(Arc::new(effects.collect()), Arc::default())
    }

    fn run(&self, key: &str) -> Result<Vec<u8>, http::StatusCode> {
        if self.1.fetch_add(1, Ordering::SeqCst).is_multiple_of(3) {
            return Err(http::StatusCode::INTERNAL_SERVER_ERROR);
        }
        let run = self.0[key].fetch_add(1, Ordering::SeqCst) + 1;
        // Bytes that are not UTF-8, with line and string terminators.
        let mut body = (0..=u8::MAX).cycle().take(5_000).collect::<Vec<_>>();
        body.extend(format!("{key} {run}").bytes());
        Ok(body)
    }

    #[track_caller]
    fn assert_once(&self) {
        for (key, effects) in self.0.iter() {
            assert_eq!(effects.load(Ordering::SeqCst), 1, "{key}");
        }
    }
}

async fn handle(
    State(effects): State<Effects>,
    headers: HeaderMap,
) -> Result<Vec<u8>, http::StatusCode> {
    // The duration of the work.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    effects.run(headers["idempotency-key"].to_str().unwrap())
}

/// Sends until the status is 2xx, as senders do. Returns whether it was a repetition, and the body.
async fn deliver(
    client: Client<HttpConnector, Body>,
    addr: SocketAddr,
    key: usize,
) -> (bool, Bytes) {
    loop {
        let request = Request::post(format!("http://{addr}/"))
            .header("host", "pay.example")
            .header("idempotency-key", format!("evt-{key}"))
            .body(Body::from("body"))
            .unwrap();
        let answer = client.request(request).await.unwrap();
        let repeated =
            ["once", "idempotency-replayed"].iter().any(|it| answer.headers().contains_key(*it));
        match answer.status().as_u16() {
            200 => return (repeated, answer.into_body().collect().await.unwrap().to_bytes()),
            // In progress, votes split between the managers, or an error of the handler:
            // the pause of a sender before its retry.
            409 | 500 | 503 => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            status => panic!("{status}"),
        }
    }
}

/// All duplicates of all keys at once. For each key, the bodies of all answers, the first one's last.
async fn deliver_all(apps: [Router<Effects>; 2], effects: &Effects) -> Vec<Vec<Bytes>> {
    let [blue, green] = apps.map(|app| app.with_state(effects.clone()));
    let addrs = [serve(blue).await, serve(green).await];
    let client = Client::builder(TokioExecutor::new()).build_http();
    let deliveries = (0..KEYS * DUPLICATES)
        .map(|i| tokio::spawn(deliver(client.clone(), addrs[i % 2], i / 2 % KEYS)));
    let (mut bodies, mut firsts) = (vec![Vec::new(); KEYS], vec![None; KEYS]);
    for (i, answer) in join_all(deliveries).await.into_iter().enumerate() {
        let (repeated, body) = answer.unwrap();
        if repeated {
            bodies[i / 2 % KEYS].push(body);
        } else {
            assert!(firsts[i / 2 % KEYS].replace(body).is_none(), "two were the first");
        }
    }
    effects.assert_once();
    for (key, (first, bodies)) in firsts.into_iter().zip(&mut bodies).enumerate() {
        let first = first.expect("one was the first");
        assert!(first.ends_with(format!("evt-{key} 1").as_bytes()));
        assert_eq!(bodies.len(), DUPLICATES - 1);
        bodies.push(first);
    }
    bodies
}

/// The handler does nothing before it fails, so its next try runs.
fn freeing(redlock: Redlock) -> OnceLayer<Scope, Always, OnceHttp<DefaultResponse, Idempotency>> {
    let once = OnceLayer::idempotency(redlock, "pay").scope(Scope::none());
    once.unknown(UnknownOutcome::Release).server_errors(ServerErrors::Release)
}

fn app() -> Router<Effects> {
    Router::new().route("/", post(handle))
}

async fn both(fixture: &Fixture) -> [Redlock; 2] {
    [fixture.direct(patient()).await, fixture.direct(patient()).await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_copies_share_one_response() {
    let (fixture, effects) = (Fixture::new(3), Effects::new());
    let apps = both(&fixture).await.map(|redlock| app().route_layer(freeing(redlock)));
    for bodies in deliver_all(apps, &effects).await {
        assert!(bodies.iter().all(|body| *body == bodies[0]));
    }
    fixture.all_keys_gone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_keeps_bytes_off_the_nodes() {
    let (fixture, effects, store) = (Fixture::new(3), Effects::new(), MemoryStore::new());
    let apps = both(&fixture)
        .await
        .map(|redlock| app().route_layer(freeing(redlock).store(store.clone())));
    for bodies in deliver_all(apps, &effects).await {
        assert!(bodies.iter().all(|body| *body == bodies[0]));
    }
    fixture.all_keys_gone().await;
    assert_eq!(store.len(), KEYS);
    for server in &fixture.servers {
        for key in server.keys("redlock:done:*") {
            let length = server.cli(&["STRLEN", &key]).int();
            assert!(length < 200, "{key}: {length} bytes");
        }
    }
}
