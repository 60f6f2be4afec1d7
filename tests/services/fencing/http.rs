//! Over HTTP, with a real server and client.

use std::{
    future::pending,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderName, Method, Request, StatusCode, header},
    routing::put,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower_redlock::{
    FencingLayer,
    fencing::{TokenSource, http::FencingHttp},
    key::{self, Key, Only, PathSegment},
};

struct Storage {
    addr: SocketAddr,
    writes: Arc<AtomicUsize>,
    client: Client<HttpConnector, Body>,
}

type ByPath = Key<Only<PathSegment>>;

fn layer() -> FencingLayer<ByPath> {
    FencingLayer::new(key::path_segment(1).only([Method::PUT]))
}

impl Storage {
    /// `PUT /files/{name}` writes; with the content `stuck` it does not end.
    async fn open<T>(layer: FencingLayer<ByPath, T, FencingHttp>) -> Self
    where
        T: TokenSource<axum::extract::Request> + Clone + Send + Sync + 'static,
    {
        let writes = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&writes);
        let write = async move |content: String| {
            counted.fetch_add(1, Ordering::SeqCst);
            if content == "stuck" { pending().await } else { content }
        };
        let app = Router::new()
            .route("/files/{name}", put(write).get(async || "read"))
            .route_layer(layer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { addr, writes, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        tokens: &[(&str, &str)],
        content: &str,
    ) -> Answer {
        let mut request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.addr));
        for (name, token) in tokens {
            request = request.header(*name, *token);
        }
        let request = request.body(Body::from(content.to_owned())).unwrap();
        let (head, body) = self.client.request(request).await.unwrap().into_parts();
        let media = head.headers.get(header::CONTENT_TYPE).map(|media| media.to_str().unwrap());
        let is_problem = media == Some("application/problem+json");
        let body = to_bytes(Body::new(body), 64 * 1024).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        let problem = is_problem.then(|| serde_json::from_str(&body).unwrap());
        Answer { status: head.status, body, problem }
    }

    async fn put(&self, token: &str, content: &str) -> Answer {
        self.send("PUT", "/files/a", &[("fencing-token", token)], content).await
    }

    fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }
}

struct Answer {
    status: StatusCode,
    body: String,
    problem: Option<Value>,
}

#[tokio::test]
async fn stale_write_gets_412() {
    let storage = Storage::open(layer().http()).await;
    for token in ["7", "7", "9"] {
        let answer = storage.put(token, "x").await;
        assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, "x"));
    }

    let late = storage.put("8", "y").await;

    assert_eq!(late.status, StatusCode::PRECONDITION_FAILED);

    let expected = json!({
        "title": "Precondition Failed",
        "status": 412,
        "detail": "the fencing token is stale: a newer one was seen before; nothing was done",
        "code": "stale-token",
        "outcome": "not-run",
    });

    assert_eq!(late.problem, Some(expected));
    assert_eq!(storage.writes(), 3);

    // All spellings of its path are the same file.
    let spelled = storage.send("PUT", "/files/%61", &[("fencing-token", "8")], "y").await;
    assert_eq!(spelled.status, StatusCode::PRECONDITION_FAILED);

    let other = storage.send("PUT", "/files/b", &[("fencing-token", "8")], "y").await;
    assert_eq!(other.status, StatusCode::OK);

    let read = storage.send("GET", "/files/a", &[], "").await;
    assert_eq!((read.status, read.body.as_str()), (StatusCode::OK, "read"));
}

#[tokio::test]
async fn missing_and_invalid_tokens_differ() {
    let storage = Storage::open(layer().http()).await;
    let answer = |answer: Answer| {
        let problem = answer.problem.unwrap();
        assert_eq!(problem["outcome"], "not-run");
        (answer.status.as_u16(), problem["code"].as_str().unwrap().to_owned())
    };

    let missing = storage.send("PUT", "/files/a", &[], "x").await;

    assert_eq!(answer(missing), (428, "missing-token".into()));

    for token in
        ["", "x", "-1", "+1", "1.0", "0x1", "0", "9007199254740992", "99999999999999999999"]
    {
        let unreadable = storage.put(token, "x").await;
        assert_eq!(answer(unreadable), (400, "bad-token".into()), "{token}");
    }
    let twice = [("fencing-token", "1"), ("fencing-token", "1")];
    let twice = storage.send("PUT", "/files/a", &twice, "x").await;

    assert_eq!(answer(twice), (400, "bad-token".into()));

    let unnamed = storage.send("PUT", "/files/%FF", &[("fencing-token", "1")], "x").await;
    assert_eq!(answer(unnamed), (400, "bad-key".into()));
    assert_eq!(storage.writes(), 0);
    assert_eq!(storage.put("9007199254740991", "x").await.status, StatusCode::OK);
}

#[tokio::test]
async fn overtaken_write_gets_412_outcome_unknown() {
    let storage = Arc::new(Storage::open(layer().http()).await);
    let slow = Arc::clone(&storage);
    let stuck = tokio::spawn(async move { slow.put("1", "stuck").await });

    while storage.writes() == 0 {
        tokio::task::yield_now().await;
    }

    assert_eq!(storage.put("2", "x").await.status, StatusCode::OK);

    let overtaken = stuck.await.unwrap();
    assert_eq!(overtaken.status, StatusCode::PRECONDITION_FAILED);

    let problem = overtaken.problem.unwrap();
    let detail = "a newer fencing token arrived while the request ran: it may have happened, or \
                  happened in part";
    assert_eq!(problem["detail"], detail);
    assert_eq!((&problem["code"], &problem["outcome"]), (&json!("stale-token"), &json!("unknown")));
}

#[tokio::test]
async fn token_source_is_configurable() {
    let storage = Storage::open(layer().token(HeaderName::from_static("x-token")).http()).await;
    assert_eq!(storage.put("1", "x").await.status, StatusCode::PRECONDITION_REQUIRED);
    let named = storage.send("PUT", "/files/a", &[("x-token", "1")], "x").await;
    assert_eq!(named.status, StatusCode::OK);

    let in_query = |request: &axum::extract::Request| -> Option<u64> {
        request.uri().query()?.strip_prefix("token=")?.parse().ok()
    };
    let storage = Storage::open(layer().token(in_query).http()).await;
    let status = async |path| storage.send("PUT", path, &[], "x").await.status.as_u16();
    assert_eq!(status("/files/a?token=2").await, 200);
    assert_eq!(status("/files/a?token=1").await, 412);
    assert_eq!(status("/files/a").await, 428);
}
