//! Streaming responses: under the lock until their trailers.

use std::{error::Error, time::Duration};

use tonic::{Code, Streaming};

use crate::grpc::{
    orders::{generated::Event, own_failure},
    site::{Site, assert_lost, event, locks},
};
use crate::support::HANG_GUARD;

#[tokio::test]
async fn lock_is_held_until_the_trailers() {
    let site = Site::open(|layer| layer).await;
    let sender = site.orders.stream("7");
    let mut stream = site.track("7").await;
    let other = site.other();
    other.ready().await.unwrap();
    for line in 1..=3 {
        sender.send(Ok(event(line))).await.unwrap();
        assert_eq!(stream.message().await.unwrap().unwrap().line, line);
        let held = site.redlock.inspect("7").await.unwrap().expect("held");
        assert_eq!(Some(held.token), site.orders.context().map(|cx| cx.fencing_token()));
        assert_eq!(site.place("7", "").await.unwrap_err().code(), Code::Aborted);
        assert!(other.lock("7").await.is_err());
    }

    drop(sender);

    assert_eq!(stream.message().await.unwrap(), None);

    site.is_free("7").await;
    assert_eq!(site.orders.entered(), 1, "nobody else came in");
}

#[tokio::test]
async fn dropped_stream_frees_the_order() {
    let site = Site::open(|layer| layer).await;
    let sender = site.orders.stream("7");
    let mut stream = site.track("7").await;
    sender.send(Ok(event(1))).await.unwrap();
    stream.message().await.unwrap().unwrap();
    drop(stream);
    let dropped = tokio::time::timeout(HANG_GUARD, sender.closed()).await;
    dropped.expect("the service's stream is dropped");

    site.becomes_free("7").await;
}

/// The connection is still usable, and the end of the stream came in its trailers: a reset has no
/// details, and has an error of the transport as its source.
async fn ends_as_lost(site: &Site, mut stream: Streaming<Event>) {
    let ended = tokio::time::timeout(HANG_GUARD, stream.message()).await;
    let status = ended.expect("the stream ends").unwrap_err();
    assert_lost(&status);
    assert!(status.source().is_none(), "{status:?}");
    assert!(stream.trailers().await.is_ok_and(|rest| rest.is_none()), "nothing follows");
    site.place("none", "").await.expect("the connection goes on");
}

#[tokio::test]
async fn overlong_stream_ends_without_reset() {
    let site = Site::open(|layer| layer.max_hold(Duration::from_secs(1))).await;
    let sender = site.orders.stream("7");
    sender.send(Ok(event(1))).await.unwrap();
    let mut stream = site.track("7").await;
    assert_eq!(stream.message().await.unwrap().unwrap().line, 1);
    ends_as_lost(&site, stream).await;
    assert!(sender.is_closed(), "the service's stream was dropped");
    site.is_free("7").await;
}

#[tokio::test]
async fn stalled_reader_holds_until_max_hold() {
    let (servers, redlock) = locks(Duration::from_secs(2)).await;
    let site = Site::over(servers, redlock, |layer| layer.max_hold(Duration::from_secs(1))).await;
    let sender = site.orders.stream("7");
    let mut stream = site.track("7").await;
    let large = Event { item: "x".repeat(64 * 1024), ..Event::default() };
    let endless =
        tokio::spawn(async move { while sender.send(Ok(large.clone())).await.is_ok() {} });

    // The transport's windows are full, so the stream is not polled when its lock ends.
    let next = site.redlock.lock("7").wait(HANG_GUARD).await.expect("free");

    assert!(!endless.is_finished());

    let status = loop {
        match stream.message().await {
            Ok(event) => assert!(event.is_some(), "no good end"),
            Err(status) => break status,
        }
    };

    assert_lost(&status);

    endless.await.unwrap();
    assert!(next.is_valid(), "what was given back late was not the next one's");
}

#[tokio::test]
async fn failed_stream_keeps_its_status() {
    let site = Site::open(|layer| layer).await;
    let sender = site.orders.stream("7");
    sender.send(Ok(event(1))).await.unwrap();
    sender.send(Err(own_failure())).await.unwrap();

    let mut stream = site.track("7").await;

    assert_eq!(stream.message().await.unwrap().unwrap().line, 1);

    let status = stream.message().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "sold out"));
    assert_eq!(status.details(), b"sold");

    site.is_free("7").await;
}
