//! Many requests on one connection.

use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, Method};
use http_body::Frame;
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy, rt::TokioExecutor};

use super::{
    client::{Client, request},
    site::{Site, patient, soon},
};

fn http2() -> legacy::Client<legacy::connect::HttpConnector, Empty<Bytes>> {
    legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http()
}

async fn site() -> (Site, std::net::SocketAddr, Client) {
    let site = Site::open(1, patient).await;
    let addr = site.client().addr();
    (site, addr, Client::new(http2(), addr))
}

#[tokio::test]
async fn one_connection_excludes_and_passes_trailers() {
    let (site, addr, client) = site().await;
    let head = http2().request(request(addr, Method::POST, "/token/a")).await.unwrap();
    assert_eq!(head.version(), http::Version::HTTP_2);
    let answers = (0..20).map(|_| client.post("/token/a"));
    for answer in soon("all answers", join_all(answers)).await {
        assert_eq!(answer.status, 200);
    }
    assert_eq!(site.shared.log.overlaps(), 0);

    let mut sender = site.next_stream();
    let body = client.open(Method::GET, "/stream/a").await.unwrap().into_body();
    sender.send_data("data".into()).await.unwrap();
    site.held("a").await;
    let trailers = HeaderMap::from_iter([(http::header::ETAG, "x".parse().unwrap())]);
    sender.send(Frame::trailers(trailers.clone())).await.unwrap();
    let collected = soon("the end", body.collect()).await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers));
    assert_eq!(collected.to_bytes(), "data");
    // The body's sender still exists, as the trailers were the end.
    site.all_keys_gone().await;
    drop(sender);
}

#[tokio::test]
async fn stream_reset_frees_only_its_key() {
    let (site, _, client) = site().await;
    let stuck = |key: &str| {
        let (client, path) = (client.clone(), format!("/stuck/{key}"));
        tokio::spawn(async move { client.post(&path).await })
    };
    let (a, b) = (stuck("a"), stuck("b"));
    site.entered(2).await;
    site.held("a").await;
    site.held("b").await;
    a.abort();

    crate::support::eventually_async("a is free", async || {
        site.servers.iter().all(|server| !server.exists("redlock:lock:a"))
    })
    .await;

    assert!(site.is_held("b"));

    b.abort();
    site.all_keys_gone().await;
}
