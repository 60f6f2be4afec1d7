//! Statuses of rejected calls.

use std::time::Duration;

use tonic::{Code, Status};

use crate::grpc::{
    orders::generated::PlaceRequest,
    site::{Site, details},
};

#[track_caller]
fn retry_delay(status: &Status, code: Code) -> Duration {
    let details = details(status, code);
    assert!(details.error_info().is_none(), "nothing was lost");
    details.retry_info().expect("RetryInfo").retry_delay.expect("a delay")
}

/// Waits until its timeout.
const SHORT: Duration = Duration::from_millis(500);

async fn held_elsewhere(site: &Site) -> Status {
    let (other, ttl) = (site.other(), Duration::from_secs(40));
    other.ready().await.unwrap();
    let lock = other.lock("7").ttl(ttl).auto_extend(false).await.unwrap();
    let status = site.place("7", "").await.unwrap_err();
    let delay = retry_delay(&status, Code::Aborted);
    // Without a measurement the delay is about a second, regardless of the remaining TTL.
    assert!(delay <= Duration::from_millis(1_500), "{delay:?}");
    drop(lock);
    assert_eq!(site.orders.entered(), 0);
    status
}

#[tokio::test]
async fn held_is_aborted_with_retry_info() {
    let site = Site::open(|layer| layer).await;
    let status = held_elsewhere(&site).await;
    assert_eq!(status.message(), "another request is using this resource; nothing was done");
    site.becomes_free("7").await;
    assert_ne!(site.place("7", "").await.unwrap(), 0, "there is a token");
}

#[tokio::test]
async fn wait_timeout_has_the_last_status() {
    let mut site = Site::open(|layer| layer.wait(SHORT)).await;
    held_elsewhere(&site).await;
    site.kill_a_majority();
    no_quorum(&site, "8").await;
}

async fn no_quorum(site: &Site, order: &str) {
    let before = site.orders.entered();
    let status = site.place(order, "").await.unwrap_err();
    assert_eq!(retry_delay(&status, Code::Unavailable), Duration::from_secs(1));
    assert_eq!(status.message(), "the lock could not be acquired at present; nothing was done");
    assert_eq!(site.orders.entered(), before);
}

#[tokio::test]
async fn no_quorum_is_unavailable() {
    let mut site = Site::open(|layer| layer).await;
    site.place("7", "").await.unwrap();
    site.kill_a_majority();
    no_quorum(&site, "7").await;
    site.place("none", "").await.expect("what needs no lock goes on");
}

#[tokio::test]
async fn no_usable_key_is_invalid_argument() {
    let site = Site::open(|layer| layer).await;
    let missing = site.client.clone().place(PlaceRequest::default()).await.unwrap_err();
    let long = site.place(&"x".repeat(513), "").await.unwrap_err();

    for (status, reason) in [(missing, "the metadata order-id is missing"), (long, "bytes")] {
        let details = details(&status, Code::InvalidArgument);
        assert!(details.retry_info().is_none() && details.error_info().is_none());
        assert!(status.message().contains(reason), "{}", status.message());
        assert!(status.message().ends_with("; nothing was done"), "{}", status.message());
    }

    assert_eq!(site.orders.entered(), 0);
}
