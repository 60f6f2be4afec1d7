//! The layer around a client: at most one of its requests for a key is in flight.

use axum::Router;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request};
use http_body_util::{BodyExt, Empty};
use tower::{ServiceBuilder, ServiceExt};
use tower_redlock::{LockContext, RedlockLayer};

use super::{
    client::{http1, request},
    log::Log,
    site::{LONG, Site, patient, serve, soon},
};

#[tokio::test]
async fn client_sends_sequentially_per_key() {
    let site = Site::open(2, patient).await;
    let log = Log::default();
    let seen = log.clone();
    // A service without locks, which reads the token.
    let app = Router::new().fallback(async move |request: axum::extract::Request| {
        assert!(LockContext::current().is_none());
        let token = request.headers()["fencing-token"].to_str().unwrap().parse().unwrap();
        let _inside = seen.enter(request.uri().path(), token);
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        "done"
    });
    let addr = serve(app).await;
    let path = |request: &Request<Empty<Bytes>>| request.uri().path().to_owned();
    let clients = site.managers.iter().map(|redlock| {
        let layer = RedlockLayer::new(redlock.clone(), path)
            .wait(LONG)
            .http()
            .token_header("fencing-token");
        ServiceBuilder::new().layer(layer).service(http1())
    });
    let clients: Vec<_> = clients.collect();

    let calls = (0..60).map(|i| {
        let client = clients[i % 2].clone();
        let request = request(addr, Method::POST, &format!("/{}", i / 2 % 3));
        async move {
            let response = client.oneshot(request).await.unwrap();
            assert_eq!(response.status(), 200);
            response.into_body().collect().await.unwrap().to_bytes()
        }
    });

    for text in soon("all answers", join_all(calls)).await {
        assert_eq!(text, "done");
    }
    assert_eq!((log.entered(), log.overlaps()), (60, 0));

    for key in ["/0", "/1", "/2"] {
        let tokens = log.tokens(key);
        assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    }
    site.all_keys_gone().await;
}
