//! Requests that end while the only server does not answer: they run once, and their answer is kept.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, routing::post};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Mutex, mpsc, oneshot},
    task::{JoinHandle, block_in_place},
};
use tower_redlock::{
    OnceLayer, Redlock, key,
    node::redis::RestartGuard,
    once::{OnceState, http::Scope},
};

use crate::fixture::{RedisServer, connected, eventually_async, in_time, over, serve};

const HANGS: [Duration; 3] =
    [Duration::from_millis(700), Duration::from_secs(1), Duration::from_secs(3)];

/// The layers, with their answer to a repetition.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Idempotency,
    Webhook,
}

impl Kind {
    /// Returns the key of the request, as `Redlock::once` takes it.
    const fn key(self) -> &'static str {
        match self {
            Self::Idempotency => "idempotency:pay://pay.example/10:(no scope):k",
            Self::Webhook => "layer:hook:k",
        }
    }
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: http::HeaderMap,
    body: Bytes,
}

impl Answer {
    #[track_caller]
    fn assert_first(&self) {
        assert_eq!(
            (self.status, &self.body[..]),
            (StatusCode::CREATED, &b"paid 1"[..]),
            "{self:?}"
        );
        assert!(!self.headers.contains_key("idempotency-replayed"), "{self:?}");
    }

    fn is_repetition(&self, kind: Kind) -> bool {
        match kind {
            Kind::Idempotency => {
                self.headers.contains_key("idempotency-replayed")
                    && (self.status, &self.body[..]) == (StatusCode::CREATED, &b"paid 1"[..])
            }
            Kind::Webhook => self.status == StatusCode::OK && self.headers.contains_key("once"),
        }
    }
}

/// A replica of the service, with its own manager over the server.
struct Replica {
    redlock: Redlock,
    url: String,
    client: Client<HttpConnector, Body>,
}

/// What the handler of the first request sends when it is about to return. It returns once that is answered.
type Ending = oneshot::Sender<()>;

struct Fixture {
    kind: Kind,
    /// Whether a server that restarted is in probation for 5 s.
    has_guard: bool,
    server: Arc<Mutex<RedisServer>>,
    url: String,
    runs: Arc<AtomicUsize>,
    endings: mpsc::UnboundedSender<Ending>,
    ending: mpsc::UnboundedReceiver<Ending>,
}

impl Fixture {
    fn new(kind: Kind, args: &[&str]) -> Self {
        let server = RedisServer::with(args);
        let (endings, ending) = mpsc::unbounded_channel();
        let url = server.url();
        let server = Arc::new(Mutex::new(server));
        Self { kind, has_guard: false, server, url, runs: Arc::default(), endings, ending }
    }

    async fn replica(&self) -> Replica {
        let builder = over(Redlock::builder(), [self.url.clone()]);
        let redlock = if self.has_guard {
            let ttl = Duration::from_secs(5);
            connected(builder.ttl(ttl).restart_guard(RestartGuard::Probation)).await
        } else {
            connected(builder).await
        };
        let (runs, endings) = (Arc::clone(&self.runs), self.endings.clone());
        let app = Router::new().route(
            "/",
            post(async move || {
                let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
                let (ending, goes_on) = oneshot::channel();
                endings.send(ending).expect("the test waits for it");
                goes_on.await.expect("the test lets it return");
                (StatusCode::CREATED, format!("paid {run}"))
            }),
        );
        let app = match self.kind {
            Kind::Idempotency => {
                let once = OnceLayer::idempotency(redlock.clone(), "pay").scope(Scope::none());
                app.route_layer(once)
            }
            Kind::Webhook => {
                let key = key::header("idempotency-key");
                app.route_layer(OnceLayer::new(redlock.clone(), "hook", key).http())
            }
        };
        let url = format!("http://{}/", serve(app).await);
        Replica { redlock, url, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Starts the first request. When its work is about to end, calls `hangs`, and lets it return.
    async fn ends_while(
        &mut self,
        replica: &Replica,
        hangs: impl AsyncFnOnce(&mut RedisServer),
    ) -> JoinHandle<Answer> {
        let begins = async {
            loop {
                let mut first = replica.send();
                tokio::select! {
                    ending = self.ending.recv() => break (first, ending.expect("the fixture sends it")),
                    // On a busy machine the server may answer too late.
                    refused = &mut first => assert_eq!(refused.unwrap().status, 503),
                }
            }
        };
        let (first, ending) = in_time(begins).await;
        hangs(&mut *self.server.lock().await).await;
        ending.send(()).expect("the handler waits");
        first
    }

    /// Repetitions are answered by both replicas as such, and nothing ran again.
    async fn assert_done(&self, replicas: [&Replica; 2]) {
        for replica in replicas {
            eventually_async("the repetition is answered", async || {
                let answer = replica.send().await.unwrap();
                let is_early = [409, 503].contains(&answer.status.as_u16());
                assert!(is_early || answer.is_repetition(self.kind), "{answer:?}");
                !is_early
            })
            .await;
        }
        assert_eq!(self.runs(), 1);
        assert_eq!(replicas[0].redlock.counts().unrecorded, 0);
        eventually_async("the record is read", async || {
            let status = replicas[1].redlock.once_key(self.key()).status().await;
            status.is_ok_and(|status| status.expect("a record").state == OnceState::Done)
        })
        .await;
    }

    const fn key(&self) -> &'static str {
        self.kind.key()
    }
}

impl Replica {
    fn send(&self) -> JoinHandle<Answer> {
        let request = Request::post(&self.url)
            .header("host", "pay.example")
            .header("idempotency-key", "k")
            .body(Body::from("body"))
            .unwrap();
        let client = self.client.clone();
        tokio::spawn(async move {
            let (head, body) = client.request(request).await.unwrap().into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Answer { status: head.status, headers: head.headers, body }
        })
    }
}

/// The answers of the first request and of a repetition, both while the server hangs.
async fn answered_meanwhile(fixture: &Fixture, first: JoinHandle<Answer>, replica: &Replica) {
    in_time(first).await.unwrap().assert_first();
    let again = in_time(replica.send()).await.unwrap();
    assert!(again.is_repetition(fixture.kind), "{again:?}");
}

/// Both kinds, beside each hang.
fn cases() -> impl Iterator<Item = (Kind, Duration)> {
    [Kind::Idempotency, Kind::Webhook].into_iter().flat_map(|kind| HANGS.map(|hang| (kind, hang)))
}

async fn runs_once_beside_a_hang(kind: Kind, hang: Duration) {
    let mut fixture = Fixture::new(kind, &[]);
    let (blue, green) = (fixture.replica().await, fixture.replica().await);
    let first = fixture.ends_while(&blue, async |server| server.freeze()).await;
    let server = Arc::clone(&fixture.server);
    let thaw = tokio::spawn(async move {
        tokio::time::sleep(hang).await;
        server.lock().await.thaw();
    });
    answered_meanwhile(&fixture, first, &blue).await;
    let elsewhere = green.send();
    thaw.await.unwrap();
    let answer = in_time(elsewhere).await.unwrap();
    assert!(answer.status != StatusCode::CREATED || answer.is_repetition(kind), "{answer:?}");
    fixture.assert_done([&blue, &green]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_runs_once_beside_a_hang() {
    join_all(cases().map(|(kind, hang)| runs_once_beside_a_hang(kind, hang))).await;
}

/// Sends a script that does not end, and waits until the server runs it. The server answers nobody for its
/// `lua-time-limit`, then it ends the script.
async fn run_script(server: &RedisServer) {
    let addr = server.addr();
    let mut script = TcpStream::connect(addr).await.unwrap();
    script.write_all(b"EVAL \"while true do end\" 0\r\n").await.unwrap();
    eventually_async("the script runs", async || {
        let mut other = TcpStream::connect(addr).await.unwrap();
        other.write_all(b"PING\r\n").await.unwrap();
        tokio::time::timeout(Duration::from_millis(50), other.read_u8()).await.is_err()
    })
    .await;
    tokio::spawn(async move {
        let mut other = TcpStream::connect(addr).await.unwrap();
        other.write_all(b"SCRIPT KILL\r\n").await.unwrap();
        assert_eq!(other.read_u8().await.unwrap(), b'+', "the script is ended");
        drop(script);
    });
}

async fn runs_once_beside_a_script(kind: Kind, hang: Duration) {
    let mut fixture = Fixture::new(kind, &["--lua-time-limit", &hang.as_millis().to_string()]);
    let (blue, green) = (fixture.replica().await, fixture.replica().await);
    let first = fixture.ends_while(&blue, async |server| run_script(server).await).await;
    answered_meanwhile(&fixture, first, &blue).await;
    fixture.assert_done([&blue, &green]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_runs_once_beside_a_long_script() {
    join_all(cases().map(|(kind, hang)| runs_once_beside_a_script(kind, hang))).await;
}

/// The server is down for half a second, and keeps its data. With the guard, it then is in probation, in which
/// it stores the record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_runs_once_beside_a_restart() {
    for (kind, has_guard) in
        [(Kind::Idempotency, false), (Kind::Webhook, false), (Kind::Idempotency, true)]
    {
        let mut fixture = Fixture::new(kind, &["--appendonly", "yes", "--appendfsync", "always"]);
        fixture.has_guard = has_guard;
        let (blue, green) = (fixture.replica().await, fixture.replica().await);

        let first = fixture.ends_while(&blue, async |server| server.kill()).await;
        answered_meanwhile(&fixture, first, &blue).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut server = fixture.server.lock().await;
        block_in_place(|| server.restart_keeping_data());
        drop(server);

        fixture.assert_done([&blue, &green]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_during_a_hang_stores_the_record() {
    for kind in [Kind::Idempotency, Kind::Webhook] {
        let mut fixture = Fixture::new(kind, &[]);
        let (blue, green) = (fixture.replica().await, fixture.replica().await);
        let first = fixture.ends_while(&blue, async |server| server.freeze()).await;
        in_time(first).await.unwrap().assert_first();
        assert_eq!(blue.redlock.snapshot().owed.len(), 1);
        let redlock = blue.redlock.clone();
        let shutdown = tokio::spawn(async move { redlock.shutdown().await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!shutdown.is_finished(), "a record is owed");
        fixture.server.lock().await.thaw();
        in_time(shutdown).await.unwrap();
        assert_eq!(blue.redlock.counts().unrecorded, 0);
        eventually_async("green's connection works again", async || {
            let status = green.redlock.once_key(fixture.key()).status().await;
            status.is_ok_and(|status| {
                assert_eq!(status.expect("it is stored").state, OnceState::Done);
                true
            })
        })
        .await;
        assert_eq!(fixture.runs(), 1);
    }
}
