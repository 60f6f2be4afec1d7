//! Requests over HTTP.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::site::Site;
use crate::support::{HANG_GUARD, eventually_async};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_never_overlap_on_a_key() {
    let site = Arc::new(Site::open(HANG_GUARD * 6).await);
    let requests = (0..200).map(|i| {
        let site = Arc::clone(&site);
        tokio::spawn(async move { site.request("POST", &format!("/task/key-{}", i % 5)).await })
    });
    let mut tokens = Vec::new();

    for request in requests.collect::<Vec<_>>() {
        let (status, token) = request.await.unwrap();
        assert_eq!(status, 200, "{token}");
        tokens.push(token.parse::<u64>().unwrap());
    }

    assert_eq!(site.entered(), 200);
    assert_eq!(site.log.overlaps.load(Ordering::SeqCst), 0);

    site.all_keys_gone().await;
}

#[tokio::test]
async fn handler_tokens_grow() {
    let site = Site::open(HANG_GUARD).await;
    let mut last = 0_u64;

    for _ in 0..10 {
        let (status, token) = site.request("POST", "/task/a").await;
        assert_eq!(status, 200, "{token}");
        let token: u64 = token.parse().unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

#[tokio::test]
async fn reads_pass_while_key_is_held() {
    let site = Site::open(Duration::ZERO).await;
    let _lock = site.redlock.lock("a").await.unwrap();
    assert_eq!(site.request("GET", "/task/a").await, (200, "unguarded".into()));
}

#[tokio::test]
async fn conflict_names_the_holder() {
    let site = Site::open(Duration::ZERO).await;
    let lock = site.redlock.lock("a").await.unwrap();
    let (status, text) = site.request("POST", "/task/a").await;
    assert_eq!(status, 409);
    assert!(text.starts_with("held by site"), "{text}");
    assert_eq!(site.entered(), 0);
    lock.release().await.unwrap();
    assert_eq!(site.request("POST", "/task/a").await.0, 200);
}

#[tokio::test]
async fn bad_key_is_a_bad_request() {
    let site = Site::open(Duration::ZERO).await;
    let (status, text) = site.request("POST", "/task/").await;
    assert_eq!((status, text.as_str()), (400, "invalid resource: a resource's name is empty"));
    let long = "x".repeat(513);
    assert_eq!(site.request("POST", &format!("/task/{long}")).await.0, 400);
    assert_eq!(site.entered(), 0);
}

#[tokio::test]
async fn after_a_shutdown_requests_are_refused() {
    let site = Site::open(Duration::ZERO).await;
    site.redlock.shutdown().await;
    let (status, text) = site.request("POST", "/task/a").await;
    assert_eq!((status, text.as_str()), (503, "the lock manager is shut down"));
    eventually_async("reads go on", async || site.request("GET", "/task/a").await.0 == 200).await;
}
