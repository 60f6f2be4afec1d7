//! Requests that do not run to their end.

use super::site::Site;
use crate::support::{HANG_GUARD, eventually_async};

#[tokio::test]
async fn client_that_hangs_up_frees_key() {
    let site = Site::open(HANG_GUARD).await;
    let stream = site.send("POST", "/task/stuck").await;
    eventually_async("the handler runs", async || site.entered() == 1).await;
    assert!(site.redlock.lock("stuck").await.is_err(), "the request holds it");
    drop(stream);
    drop(site.redlock.lock("stuck").wait(HANG_GUARD).await.expect("free after a hang-up"));
    site.all_keys_gone().await;
}

#[tokio::test]
async fn hang_up_while_waiting_leaves_line() {
    let site = Site::open(HANG_GUARD * 6).await;
    let lock = site.redlock.lock("a").await.unwrap();
    let mut waiting = Vec::new();

    for _ in 0..5 {
        waiting.push(site.send("POST", "/task/a").await);
    }

    // They are in the queue once a later request, sent over the same listener, was answered.
    assert_eq!(site.request("GET", "/task/a").await.0, 200);

    let entered = site.entered();
    drop(waiting);
    lock.release().await.unwrap();
    let (status, text) = site.request("POST", "/task/a").await;

    assert_eq!(status, 200, "{text}");
    assert!(site.entered() > entered);

    site.all_keys_gone().await;
}

#[tokio::test]
async fn handler_that_panics_frees_key() {
    let site = Site::open(HANG_GUARD).await;
    let (status, _) = site.request("POST", "/task/panic").await;
    assert_eq!(status, 0, "the server hangs up");
    assert_eq!(site.entered(), 1);
    site.all_keys_gone().await;
    drop(site.redlock.lock("panic").await.expect("free"));
}
