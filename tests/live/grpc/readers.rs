//! Calls that track an order run beside each other, and calls that change it alone, in two processes together.

use tonic::Code;
use tower_redlock::{
    LockContext, RedlockLayer, key::RequestHead, key::SharedForHead, layer::grpc::RedlockGrpc,
};

use crate::grpc::site::{Key, Layer, Site, details, event, place};
use crate::support::{LONG, eventually_async};

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

#[tokio::test]
async fn writer_waits_for_the_readers_of_all_processes() {
    let site = Site::open(|layer| readers(layer.wait(LONG))).await;
    let other = site.other();
    other.ready().await.unwrap();
    let (sender, here) = (site.orders.stream("7"), site.track("7").await);
    let elsewhere = other.lock("7").shared().await.unwrap();
    let client = site.client.clone();
    let writer = tokio::spawn(async move { place(&client, "7", "").await });
    let waits = async || site.redlock.snapshot().waiting.iter().any(|it| &*it.name == "7");
    eventually_async("the writer waits", waits).await;

    drop((sender, here));
    let is_kept_out = async || other.lock("7").shared().await.is_err();
    eventually_async("no further reader", is_kept_out).await;
    assert!(!writer.is_finished());
    let token = elsewhere.fencing_token().get();
    elsewhere.release().await.unwrap();

    assert!(writer.await.unwrap().expect("its turn has come") > token);
    let reader = other.lock("7").shared().wait(LONG).await;
    assert!(reader.is_ok(), "the readers come next: {reader:?}");
}
