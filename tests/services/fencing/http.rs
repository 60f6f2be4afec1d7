//! Over HTTP, with a real server and client.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{Router, body::Body, extract::Request, routing::put};
use http::{HeaderName, Method};
use serde_json::{Value, json};
use tower_redlock::{
    FencingLayer,
    fencing::{TokenSource, http::FencingHttp},
    key::{self, Key, Only, PathSegment},
};

use crate::client::{Answer, Client, serve};

type ByPath = Key<Only<PathSegment>>;

fn layer() -> FencingLayer<ByPath> {
    FencingLayer::new(key::path_segment(1).only([Method::PUT]))
}

struct Storage {
    client: Client,
    writes: Arc<AtomicUsize>,
}

impl Storage {
    /// `PUT /files/{name}` writes; with the content `stuck` it does not end.
    async fn open<T>(layer: FencingLayer<ByPath, T, FencingHttp>) -> Self
    where
        T: TokenSource<Request> + Clone + Send + Sync + 'static,
    {
        let writes = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&writes);
        let write = async move |content: String| {
            counted.fetch_add(1, Ordering::SeqCst);
            if content == "stuck" { pending().await } else { content }
        };
        let files = put(write).get(async || "read");
        let app = Router::new().route("/files/{name}", files).route_layer(layer);
        Self { client: serve(app).await, writes }
    }

    async fn send(&self, method: Method, path: &str, tokens: &[(&str, &str)]) -> Answer {
        self.client.send(request(method, path, tokens, "x")).await
    }

    async fn put(&self, token: &str) -> Answer {
        self.send(Method::PUT, "/files/a", &[("fencing-token", token)]).await
    }

    fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }
}

fn request(method: Method, path: &str, tokens: &[(&str, &str)], content: &'static str) -> Request {
    let request = Request::builder().method(method).uri(path);
    let request =
        tokens.iter().fold(request, |request, (name, token)| request.header(*name, *token));
    request.body(Body::from(content)).unwrap()
}

#[tokio::test]
async fn stale_write_gets_412() {
    let storage = Storage::open(layer().http()).await;
    for token in ["7", "7", "9"] {
        let answer = storage.put(token).await;
        assert_eq!((answer.code(), &answer.body[..]), (200, &b"x"[..]));
    }

    let late = storage.put("8").await;

    late.assert_problem(412, None, "stale-token", "not-run");
    let expected = json!({
        "title": "Precondition Failed",
        "status": 412,
        "detail": "the fencing token is stale: a newer one was seen before; nothing was done",
        "code": "stale-token",
        "outcome": "not-run",
    });
    assert_eq!(serde_json::from_slice::<Value>(&late.body).unwrap(), expected);
    assert_eq!(storage.writes(), 3);
    // All spellings of its path are the same file.
    for (method, path, token, status) in [
        (Method::PUT, "/files/%61", "8", 412),
        (Method::PUT, "/files/b", "8", 200),
        (Method::GET, "/files/a", "", 200),
    ] {
        let answer = storage.send(method, path, &[("fencing-token", token)]).await;
        assert_eq!(answer.code(), status, "{path}");
    }
}

#[tokio::test]
async fn missing_and_invalid_tokens_differ() {
    let storage = Storage::open(layer().http()).await;
    let put = async |tokens: &[(&str, &str)]| storage.send(Method::PUT, "/files/a", tokens).await;

    put(&[]).await.assert_problem(428, None, "missing-token", "not-run");

    for token in
        ["", "x", "-1", "+1", "1.0", "0x1", "0", "9007199254740992", "99999999999999999999"]
    {
        println!("{token:?}");
        storage.put(token).await.assert_problem(400, None, "bad-token", "not-run");
    }
    let twice = put(&[("fencing-token", "1"), ("fencing-token", "1")]).await;
    twice.assert_problem(400, None, "bad-token", "not-run");
    storage.send(Method::PUT, "/files/%FF", &[("fencing-token", "1")]).await.assert_bad_key();
    assert_eq!(storage.writes(), 0);
    assert_eq!(storage.put("9007199254740991").await.code(), 200);
}

#[tokio::test]
async fn overtaken_write_gets_412_outcome_unknown() {
    let storage = Storage::open(layer().http()).await;
    let tokens = [("fencing-token", "1")];
    let stuck = storage.client.spawn(request(Method::PUT, "/files/a", &tokens, "stuck"));
    while storage.writes() == 0 {
        tokio::task::yield_now().await;
    }

    assert_eq!(storage.put("2").await.code(), 200);

    let overtaken = stuck.await.unwrap();
    overtaken.assert_problem(412, None, "stale-token", "unknown");
    let detail = "a newer fencing token arrived while the request ran: it may have happened, or \
                  happened in part";
    assert_eq!(serde_json::from_slice::<Value>(&overtaken.body).unwrap()["detail"], detail);
}

#[tokio::test]
async fn token_source_is_configurable() {
    let storage = Storage::open(layer().token(HeaderName::from_static("x-token")).http()).await;
    assert_eq!(storage.put("1").await.code(), 428);
    let named = storage.send(Method::PUT, "/files/a", &[("x-token", "1")]).await;
    assert_eq!(named.code(), 200);

    let in_query = |request: &Request| -> Option<u64> {
        request.uri().query()?.strip_prefix("token=")?.parse().ok()
    };
    let storage = Storage::open(layer().token(in_query).http()).await;
    for (path, status) in [("/files/a?token=2", 200), ("/files/a?token=1", 412), ("/files/a", 428)]
    {
        assert_eq!(storage.send(Method::PUT, path, &[]).await.code(), status, "{path}");
    }
}
