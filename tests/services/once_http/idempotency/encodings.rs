//! Compressed responses, and clients that do not accept them; ranges.

use axum::{
    Router,
    body::Body,
    routing::{any, post},
};
use http::{
    HeaderMap, Method, Request,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, RANGE},
};
use tower_http::compression::CompressionLayer;
use tower_redlock::once::MemoryStore;

use super::requests::{layer, pay};
use crate::client::{Answer, Client};
use crate::once_http::fixture::{Fixture, Runs, serve};

const GZIP: [u8; 2] = [0x1f, 0x8b];

fn text() -> String {
    "paid ".repeat(100)
}

fn app(runs: &Runs) -> Router {
    let runs = runs.clone();
    let handler = async move || {
        runs.run();
        text()
    };
    Router::new().route("/pay", post(handler))
}

fn accepting(encoding: Option<&'static str>) -> Request<Body> {
    let mut request = pay("k", "x");
    if let Some(encoding) = encoding {
        request.headers_mut().insert(ACCEPT_ENCODING, encoding.parse().unwrap());
    }
    request
}

async fn answers(client: &Client, encodings: &[Option<&'static str>]) -> Vec<Answer> {
    let mut answers = Vec::new();
    for encoding in encodings {
        answers.push(client.send(accepting(*encoding)).await);
    }
    answers
}

#[tokio::test]
async fn inner_compression_is_bypassed() {
    let fixture = Fixture::new(3);
    let inside = app(&fixture.runs).route_layer(CompressionLayer::new());
    let client = serve(inside.route_layer(layer(&fixture.at_blue))).await;
    for answer in answers(&client, &[Some("gzip"), None, Some("identity"), Some("gzip")]).await {
        assert_eq!(answer.header("content-encoding"), None);
        assert_eq!(answer.body, text());
    }
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn compression_outside_encodes_for_each_client() {
    let fixture = Fixture::new(3);
    let once = app(&fixture.runs).route_layer(layer(&fixture.at_blue));
    let client = serve(once.route_layer(CompressionLayer::new())).await;
    let answers = answers(&client, &[Some("gzip"), None, Some("identity"), Some("gzip")]).await;
    for plain in &answers[1..3] {
        assert_eq!(plain.body, text());
    }
    let (first, again) = (&answers[0], &answers[3]);
    for gzip in [first, again] {
        assert_eq!(gzip.header("content-encoding"), Some("gzip"));
        assert_eq!(gzip.body[..2], GZIP);
        assert_eq!(gzip.header("vary"), Some("accept-encoding"));
    }
    assert_eq!(first.body, again.body);
    assert_eq!(fixture.runs.count(), 1);
}

/// The service encodes without regard to `accept-encoding`.
#[tokio::test]
async fn encoded_response_needs_acceptance() {
    for is_in_store in [false, true] {
        let fixture = Fixture::new(3);
        let runs = fixture.runs.clone();
        let handler = async move || {
            runs.run();
            ([(CONTENT_ENCODING, "gzip")], GZIP)
        };
        let once = layer(&fixture.at_blue);
        let once = if is_in_store { once.store(MemoryStore::new()) } else { once };
        let client = serve(Router::new().route("/pay", post(handler)).route_layer(once)).await;
        for answer in answers(&client, &[Some("br"), Some("gzip"), None]).await {
            assert_eq!((answer.code(), &answer.body[..]), (200, &GZIP[..]));
        }
        for other in ["br", "identity", "gzip;q=0", ""] {
            client.send(accepting(Some(other))).await.assert_problem(
                406,
                None,
                "not-acceptable",
                "done",
            );
        }
        assert_eq!(fixture.runs.count(), 1);
    }
}

#[tokio::test]
async fn ranges_are_ignored() {
    let fixture = Fixture::new(3);
    let runs = fixture.runs.clone();
    let handler = async move |headers: HeaderMap| {
        runs.run();
        assert!(!headers.contains_key(RANGE));
        text()
    };
    let app = Router::new().route("/pay", any(handler));
    let client = serve(app.route_layer(layer(&fixture.at_blue).methods([Method::GET]))).await;
    for range in ["bytes=0-3", "bytes=4-7"] {
        let mut request = pay("k", "");
        *request.method_mut() = Method::GET;
        request.headers_mut().insert(RANGE, range.parse().unwrap());
        let answer = client.send(request).await;
        assert_eq!((answer.code(), &answer.body[..]), (200, text().as_bytes()));
    }
    assert_eq!(fixture.runs.count(), 1);
}
