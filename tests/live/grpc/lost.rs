//! A method whose lock ends while it runs.

use std::time::Duration;

use tokio::time::timeout;

use crate::grpc::site::{Site, assert_lost, locks};
use crate::support::{HANG_GUARD, eventually_async};

#[tokio::test]
async fn dead_servers_leave_an_unknown_outcome() {
    let (servers, redlock) = locks(Duration::from_secs(3)).await;
    let mut site = Site::over(servers, redlock, |layer| layer).await;
    let call = site.stuck("7").await;
    site.kill_a_majority();

    let status = timeout(HANG_GUARD, call).await.expect("stopped").unwrap().unwrap_err();

    assert_lost(&status);
    assert!(status.message().contains("it may have happened"), "{}", status.message());
    assert_eq!((site.orders.entered(), site.orders.left()), (1, 1), "the method was dropped");
    assert!(site.orders.context().unwrap().ensure_valid().is_err());
}

#[tokio::test]
async fn slow_method_is_stopped_and_releases() {
    let site = Site::open(|layer| layer.max_hold(Duration::from_secs(1))).await;
    let status = site.stuck("7").await.await.unwrap().unwrap_err();
    assert_lost(&status);
    assert_eq!(site.orders.left(), 1);
    site.is_free("7").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn method_that_overruns_has_unknown_outcome() {
    let site = Site::open(|layer| layer.max_hold(Duration::from_millis(300))).await;
    assert_lost(&site.place("7", "overrunning").await.unwrap_err());
    site.becomes_free("7").await;
}

#[tokio::test]
async fn cancelled_call_frees_the_order() {
    let site = Site::open(|layer| layer).await;
    let call = site.stuck("7").await;
    call.abort();
    eventually_async("the method is dropped", async || site.orders.left() == 1).await;
    site.becomes_free("7").await;
}

#[tokio::test]
async fn panic_frees_order_and_keeps_connection() {
    let site = Site::open(|layer| layer).await;
    site.place("7", "panicking").await.unwrap_err();
    assert_eq!((site.orders.entered(), site.orders.left()), (1, 1));
    site.becomes_free("7").await;
    site.place("7", "").await.expect("the server is alive");
}
