//! Limits on stored answers, which would fill the servers' memory.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{Router, body::Body, routing::post};
use futures_util::{StreamExt, future::join_all, stream};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tower_redlock::{OnceLayer, Redlock, RedlockBuilder, once::http::Scope};

use crate::fixture::{Fixture, Log, RedisServer, connected, over, patient, serve, urls};

const REQUESTS: usize = 600;
/// Concurrent requests.
const CLIENTS: usize = 16;
const ANSWER: usize = 60_000;
const LIMIT: [&str; 4] = ["--maxmemory", "12mb", "--maxmemory-policy", "noeviction"];

struct LimitedServers {
    servers: Vec<RedisServer>,
    log: Log,
    runs: Arc<AtomicUsize>,
    client: Client<HttpConnector, Body>,
}

impl LimitedServers {
    fn new() -> Self {
        let servers = (0..3).map(|_| RedisServer::with(&LIMIT)).collect();
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { servers, log: Log::new(), runs: Arc::default(), client }
    }

    async fn manager(&self, builder: RedlockBuilder) -> Redlock {
        connected(over(builder, urls(&self.servers))).await
    }

    async fn serve(&self, redlock: &Redlock) -> SocketAddr {
        let (runs, log) = (Arc::clone(&self.runs), self.log.clone());
        let handle = async move || {
            runs.fetch_add(1, Ordering::SeqCst);
            vec![b'x'; ANSWER]
        };
        let once = OnceLayer::idempotency(redlock.clone(), "pay").scope(Scope::none()).any_host();
        let app = Router::new().route("/", post(handle)).route_layer(once);
        let app = app.layer(axum::middleware::from_fn(
            move |request: axum::extract::Request, next: axum::middleware::Next| {
                let log = log.clone();
                async move { log.during(next.run(request)).await }
            },
        ));
        serve(app).await
    }

    /// Retries, as clients do, if a busy machine had too few answers in time; not if a server is
    /// full.
    async fn send(&self, addr: SocketAddr, key: usize) -> (StatusCode, String) {
        loop {
            let request = Request::post(format!("http://{addr}/"))
                .header("idempotency-key", format!("evt-{key}"))
                .body(Body::empty())
                .unwrap();
            let answer = self.client.request(request).await.unwrap();
            let status = answer.status();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            if status != StatusCode::SERVICE_UNAVAILABLE {
                return (status, String::from_utf8(body.to_vec()).unwrap());
            }
            let log = self.log.text();
            assert!(!log.contains("out of memory"), "{log}");
        }
    }

    /// Sends each request once, spread over the replicas, and checks that all of them run.
    async fn load(&self, replicas: &[SocketAddr]) {
        let all = (0..REQUESTS).map(|key| self.send(replicas[key % replicas.len()], key));
        let answers: Vec<_> = stream::iter(all).buffer_unordered(CLIENTS).collect().await;
        for (status, body) in answers {
            let log = || self.log.text();
            assert_eq!((status, body.len()), (StatusCode::OK, ANSWER), "{body:.200}\n{}", log());
        }
        assert_eq!(self.runs.load(Ordering::SeqCst), REQUESTS);
    }

    /// Repeats the requests, checks that none runs, and returns the number of stored answers.
    async fn replayed(&self, replica: SocketAddr) -> usize {
        let all = (0..REQUESTS).map(|key| self.send(replica, key));
        let answers: Vec<_> = stream::iter(all).buffer_unordered(CLIENTS).collect().await;
        let is_replayed = |(status, body): &&(StatusCode, String)| match status.as_u16() {
            200 => body.len() == ANSWER,
            409 => {
                assert!(body.contains("response-not-kept") && body.contains("done"), "{body}");
                false
            }
            _ => panic!("{status}: {body}\n{}", self.log.text()),
        };
        let replayed = answers.iter().filter(is_replayed).count();
        assert_eq!(self.runs.load(Ordering::SeqCst), REQUESTS);
        replayed
    }

    /// With separate names, as they are released in the background.
    async fn two_hundred_locks_are_granted(&self, redlock: &Redlock, whose: &str) {
        let locks = join_all((0..200).map(|i| redlock.lock(format!("{whose} {i}")).into_future()));
        let granted = locks.await;
        let refused: Vec<_> = granted.iter().filter_map(|lock| lock.as_ref().err()).collect();
        assert!(refused.is_empty(), "{} of 200 are refused: {}", refused.len(), refused[0]);
    }

    fn used(&self) -> Vec<u64> {
        let used = |server: &RedisServer| server.info("memory", "used_memory").unwrap();
        self.servers.iter().map(|server| used(server).parse().unwrap()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_answers_leave_room_for_locks() {
    let limited = LimitedServers::new();
    let redlock = limited.manager(patient()).await;
    let replica = limited.serve(&redlock).await;
    limited.load(&[replica]).await;
    limited.two_hundred_locks_are_granted(&redlock, "unrelated").await;
    let replayed = limited.replayed(replica).await;
    // A quarter of 12 MB, in allocations of 64 KiB; an eighth of the room at first.
    assert!((10..=48).contains(&replayed), "{replayed} answers are kept");
    println!("{replayed} of {REQUESTS} answers are kept; used: {:?}", limited.used());
    // Logged once for each reason, not for each answer.
    limited.log.wait_for("WARN", &["repeated requests get response-not-kept", "answers=1"]).await;
    let warned = limited.log.text().matches("repeated requests get response-not-kept").count();
    assert!(warned <= 2, "{}", limited.log.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_quota_leaves_a_quarter() {
    let limited = LimitedServers::new();
    let builder = || patient().max_stored_response_bytes(1 << 30);
    let (blue, green) = (limited.manager(builder()).await, limited.manager(builder()).await);
    let replicas = [limited.serve(&blue).await, limited.serve(&green).await];
    limited.load(&replicas).await;
    limited.two_hundred_locks_are_granted(&blue, "blue").await;
    limited.two_hundred_locks_are_granted(&green, "green").await;
    let replayed = limited.replayed(replicas[0]).await;
    assert!(replayed > 10, "{replayed} answers are kept");
    println!("{replayed} of {REQUESTS} answers are kept; used: {:?}", limited.used());
    limited.log.wait_for("WARN", &["nearly three quarters full"]).await;
}

#[tokio::test]
async fn each_check_reports_used_memory() {
    let fixture = Fixture::new(1);
    let redlock = fixture.direct(patient()).await;
    let used = || redlock.health()[0].memory.as_ref().map_or(0, |memory| memory.used);
    let before = used();
    assert!(before > 100_000, "{before}");
    fixture.servers[0].cli(&["SET", "filler", &"x".repeat(1 << 20)]);
    crate::fixture::eventually_async("the memory is used", async || used() > before + (1 << 20))
        .await;
}
