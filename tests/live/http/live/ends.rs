//! Requests that do not run to their end, and responses without a body.

use std::time::Duration;

use axum::{Router, http::StatusCode, routing::any};
use http::{Method, header};
use tower_redlock::RedlockLayer;

use super::{
    client::{Client, http1},
    site::{LONG, Site, last_segment, patient, serve, soon},
};

#[tokio::test]
async fn disconnect_frees_the_key_at_once() {
    let site = Site::open(1, patient).await;
    let client = site.client().clone();
    let request = tokio::spawn(async move { client.post("/stuck/a").await });
    site.entered(1).await;
    site.held("a").await;
    request.abort();

    // The TTL is far longer than the guard against hanging: nothing expires here.
    site.all_keys_gone().await;

    assert!(!site.shared.log.is_inside("a"));
    assert_eq!(site.client().post("/token/a").await.status, 200);
}

#[tokio::test]
async fn panic_in_handler_frees_key() {
    let site = Site::open(1, patient).await;
    let answer = site.client().send(Method::POST, "/panic/a").await;
    assert!(answer.is_err(), "the server hangs up: {answer:?}");
    assert_eq!(site.shared.log.entered(), 1);
    site.all_keys_gone().await;
    assert_eq!(site.client().post("/token/a").await.status, 200);
}

#[tokio::test]
async fn held_is_409_until_release() {
    let site = Site::open(1, patient).await;
    let rival = super::site::manager(&site.servers, patient().owner("secret-owner")).await;
    let layer = RedlockLayer::new(site.managers[0].clone(), last_segment).http();
    let app = Router::new().fallback(async || "done").layer(layer);
    let client = Client::new(http1(), serve(app).await);

    let lock = rival.lock("a").await.unwrap();
    let answer = client.post("/a").await;
    assert_eq!(answer.problem(), (409, "held".into(), "not-run".into()));
    let after: u64 = answer.headers[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((1..=LONG.as_secs()).contains(&after), "{after} s");
    assert!(!answer.text.contains("secret"), "{}", answer.text);
    let head = client.send(Method::HEAD, "/a").await.unwrap();
    assert_eq!((head.status, head.text.as_str()), (StatusCode::CONFLICT, ""));
    assert!(head.headers.contains_key(header::RETRY_AFTER));
    lock.release().await.unwrap();
    assert_eq!(client.post("/a").await.text, "done");
}

#[tokio::test]
async fn bodiless_responses_free_the_key() {
    let site = Site::open(1, patient).await;
    let redlock = site.managers[0].clone();
    let app = Router::new()
        .route("/empty/{key}", any(async || StatusCode::NO_CONTENT))
        .route("/same/{key}", any(async || (StatusCode::NOT_MODIFIED, "not sent")))
        .route("/text/{key}", any(async || "some text"))
        .fallback(async || axum::body::Body::new(Endless))
        .layer(RedlockLayer::new(redlock, last_segment).wait(Duration::ZERO).http());
    let client = Client::new(http1(), serve(app).await);
    let requests = [
        (Method::POST, "/empty/a", 204, None),
        (Method::GET, "/same/b", 304, None),
        (Method::HEAD, "/text/c", 200, Some("9")),
        (Method::HEAD, "/endless/d", 200, None),
        (Method::GET, "/text/e", 200, Some("9")),
    ];

    for (method, path, status, length) in requests {
        let answer = soon(path, client.send(method, path)).await.unwrap();
        assert_eq!(answer.status, status, "{path}");
        let found = answer.headers.get(header::CONTENT_LENGTH).map(|it| it.to_str().unwrap());
        if let Some(length) = length {
            assert_eq!(found, Some(length), "{path}");
        }
        site.all_keys_gone().await;
    }
}

/// A body without an end, which must not be read if the response has no body.
struct Endless;

impl http_body::Body for Endless {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        std::task::Poll::Pending
    }
}
