//! At most two calls for a key run at a time, in two processes together.

use tonic::Code;
use tower_redlock::LockContext;

use crate::grpc::site::{Layer, Site, details};

fn two_slots(layer: Layer) -> Layer {
    layer.slots(2)
}

#[tokio::test]
async fn call_beyond_the_slots_is_resource_exhausted() {
    let site = Site::open(two_slots).await;
    let other = site.other();
    other.ready().await.unwrap();
    let running = site.stuck("7").await;
    let elsewhere = other.lock("7").slots(2).await.unwrap();

    let status = site.place("7", "").await.unwrap_err();

    let details = details(&status, Code::ResourceExhausted);
    let info = details.error_info().expect("ErrorInfo");
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("FULL", "tower-redlock"));
    assert_eq!(info.metadata["outcome"], "not-run");
    let delay = details.retry_info().expect("RetryInfo").retry_delay.expect("a delay");
    assert!(!delay.is_zero());
    assert!(status.message().ends_with("; nothing was done"), "{}", status.message());
    assert_eq!(site.orders.entered(), 1);
    site.place("8", "").await.expect("another key has slots of its own");

    elsewhere.release().await.unwrap();
    site.place("7", "").await.expect("a slot is free");
    let slot = site.orders.context().as_ref().and_then(LockContext::slot);
    assert!(matches!(slot, Some(0 | 1)), "{slot:?}");
    site.orders.let_go();
    running.await.unwrap().unwrap();
}
