//! Calls that track an order run beside each other, and calls that change it alone, in two processes together.

use tonic::Code;
use tower_redlock::{
    LockContext, RedlockLayer, key::RequestHead, key::SharedForHead, layer::grpc::RedlockGrpc,
};

use crate::grpc::site::{Key, Layer, Site, details, event};

type IsRead = fn(&RequestHead<'_>) -> bool;

fn tracks(head: &RequestHead<'_>) -> bool {
    head.uri().path() == "/orders.v1.Orders/Track"
}

fn readers(layer: Layer) -> RedlockLayer<SharedForHead<Key, IsRead>, RedlockGrpc> {
    layer.shared_for(tracks as IsRead)
}

#[tokio::test]
async fn readers_run_side_by_side_and_a_writer_alone() {
    let site = Site::open(readers).await;
    let other = site.other();
    other.ready().await.unwrap();
    let (first, mut one) = (site.orders.stream("7"), site.track("7").await);
    let (second, mut two) = (site.orders.stream("7"), site.track("7").await);
    assert!(site.orders.context().as_ref().is_some_and(LockContext::is_shared));
    let elsewhere = other.lock("7").shared().await.expect("beside the streams");

    let refused = site.place("7", "").await.unwrap_err();

    let delay = details(&refused, Code::Aborted).retry_info().expect("RetryInfo").retry_delay;
    assert!(delay.is_some_and(|delay| !delay.is_zero()));
    assert!(refused.message().ends_with("; nothing was done"), "{}", refused.message());
    assert!(other.lock("7").await.is_err(), "a writer elsewhere");
    for (sender, stream) in [(first, &mut one), (second, &mut two)] {
        sender.send(Ok(event(1))).await.unwrap();
        assert_eq!(stream.message().await.unwrap(), Some(event(1)));
        drop(sender);
        assert_eq!(stream.message().await.unwrap(), None);
    }
    elsewhere.release().await.unwrap();
    site.becomes_free("7").await;
    let writer = site.stuck("7").await;
    assert!(site.orders.context().is_some_and(|lock| !lock.is_shared()));
    assert!(other.lock("7").shared().await.is_err(), "a reader elsewhere");
    site.orders.let_go();
    writer.await.unwrap().unwrap();
}
