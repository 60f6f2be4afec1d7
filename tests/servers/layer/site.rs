//! An HTTP server whose requests to `/task/{key}` run one at a time per key, and a client.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    error_handling::HandleErrorLayer,
    extract::{Path, Request, State},
    http::{Method, StatusCode},
    routing::any,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tower::ServiceBuilder;
use tower_redlock::{
    LockContext, LockError, Redlock, RedlockLayer, Resource, layer::GuardError, layer::KeyError,
};

use crate::support::{RedisServer, connected, eventually_async, over, patient, urls};

pub(super) struct Site {
    pub(super) addr: SocketAddr,
    pub(super) redlock: Redlock,
    pub(super) log: Log,
    servers: Vec<RedisServer>,
}

/// The log of the handlers.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    inside: Arc<Mutex<HashMap<String, usize>>>,
    pub(super) overlaps: Arc<AtomicUsize>,
    pub(super) entered: Arc<AtomicUsize>,
}

/// Marks a running handler for `key`, until it is dropped.
struct Inside(Log, String);

impl Log {
    fn enter(&self, key: String) -> Inside {
        let mut inside = self.inside.lock().unwrap();
        let count = inside.entry(key.clone()).or_default();
        *count += 1;
        if *count > 1 {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        self.entered.fetch_add(1, Ordering::SeqCst);
        Inside(self.clone(), key)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        *self.0.inside.lock().unwrap().get_mut(&self.1).unwrap() -= 1;
    }
}

/// The key is the last segment of the path; reads need none.
fn key(request: &Request) -> Result<Option<Resource>, KeyError> {
    if request.method() == Method::GET {
        return Ok(None);
    }
    let (_, key) = request.uri().path().rsplit_once('/').ok_or(KeyError::new("no path"))?;
    Ok(Some(Resource::try_from(key)?))
}

/// Responds with the fencing token, or as the key requests.
async fn handler(State(log): State<Log>, Path(key): Path<String>) -> String {
    let _inside = log.enter(key.clone());
    match key.as_str() {
        "stuck" => std::future::pending().await,
        "panic" => panic!("on purpose"),
        _ => tokio::time::sleep(Duration::from_millis(1)).await,
    }
    LockContext::current().map_or("unguarded".into(), |cx| cx.fencing_token().to_string())
}

async fn refusal(error: GuardError<Infallible>) -> (StatusCode, String) {
    let status = match &error {
        GuardError::Lock(LockError::Held { .. } | LockError::WaitTimedOut { .. }) => {
            StatusCode::CONFLICT
        }
        GuardError::Lock(LockError::InvalidResource(_)) => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, error.to_string())
}

impl Site {
    pub(super) async fn open(wait: Duration) -> Self {
        let servers = RedisServer::start_n(3);
        let redlock = connected(over(patient(), urls(&servers)).owner("site")).await;
        let log = Log::default();
        let layer = ServiceBuilder::new()
            .layer(HandleErrorLayer::new(refusal))
            .layer(RedlockLayer::new(redlock.clone(), key).wait(wait));
        let app = Router::new()
            .route("/task/{key}", any(handler))
            .route("/task/", any(async || "unreachable"))
            .layer(layer)
            .with_state(log.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { addr, redlock, log, servers }
    }

    /// Sends a request and returns the open connection.
    pub(super) async fn send(&self, method: &str, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: site\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// Returns the status and the body; status 0 if the server closed the connection without a
    /// response.
    pub(super) async fn request(&self, method: &str, path: &str) -> (u16, String) {
        let mut answer = String::new();
        let mut stream = self.send(method, path).await;
        let _ = stream.read_to_string(&mut answer).await;
        let status = answer.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, body.to_owned())
    }

    pub(super) fn entered(&self) -> usize {
        self.log.entered.load(Ordering::SeqCst)
    }

    pub(super) async fn all_keys_gone(&self) {
        eventually_async("no server keeps a lock key", async || {
            self.servers.iter().all(|server| server.keys("redlock:lock:*").is_empty())
        })
        .await;
    }
}
