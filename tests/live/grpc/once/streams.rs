//! Streaming responses, which are done with their trailers.

use std::{error::Error, time::Duration};

use tonic::Code;
use tower_redlock::once::{OnceState, UnknownOutcome};

use super::site::{HOUR, Site, assert_duplicate, assert_info};
use crate::grpc::{
    orders::own_failure,
    site::{assert_lost, event},
};
use crate::support::{HANG_GUARD, eventually_async};

#[tokio::test]
async fn stream_is_running_until_its_trailers() {
    let site = Site::open(|layer| layer).await;
    let sender = site.orders.stream("7");
    let mut stream = site.track("7").await;
    for line in 1..=3 {
        sender.send(Ok(event(line))).await.unwrap();
        assert_eq!(stream.message().await.unwrap().unwrap().line, line);
        let status = site.place("7", "").await.unwrap_err();
        assert_info(&status, Code::Aborted, "IN_PROGRESS", "not-run");
        assert_eq!(site.state("7").await, Some(OnceState::InProgress));
    }

    drop(sender);

    assert_eq!(stream.message().await.unwrap(), None);
    // It was recorded before the trailers went out.
    assert_eq!(site.state("7").await, Some(OnceState::Done));
    assert_duplicate(site.place("7", "").await);
    assert_eq!(site.orders.entered(), 1);
}

#[tokio::test]
async fn a_stream_of_nothing_is_done() {
    let site = Site::open(|layer| layer).await;
    drop(site.orders.stream("7"));
    assert_eq!(site.track("7").await.message().await.unwrap(), None);
    assert_eq!(site.state("7").await, Some(OnceState::Done));
}

#[tokio::test]
async fn failure_in_trailers_is_not_done() {
    let site = Site::open(|layer| layer.unknown(UnknownOutcome::Hold(HOUR))).await;
    for (failure, state) in
        [(own_failure(), None), (tonic::Status::internal("as asked for"), Some(OnceState::Unknown))]
    {
        let sender = site.orders.stream("7");
        let mut stream = site.track("7").await;
        sender.send(Ok(event(1))).await.unwrap();
        assert_eq!(stream.message().await.unwrap().unwrap().line, 1);
        sender.send(Err(failure.clone())).await.unwrap();
        let status = stream.message().await.unwrap_err();
        assert_eq!((status.code(), status.details()), (failure.code(), failure.details()));
        assert_eq!(site.state("7").await, state);
    }
}

#[tokio::test]
async fn stream_is_drained_without_its_client() {
    let site = Site::open(|layer| layer).await;
    let sender = site.orders.stream("7");
    let mut stream = site.track("7").await;
    sender.send(Ok(event(1))).await.unwrap();
    stream.message().await.unwrap().unwrap();
    drop(stream);

    // More than fits into the buffers of the connection.
    for line in 2..=100 {
        let sent = tokio::time::timeout(HANG_GUARD, sender.send(Ok(event(line)))).await;
        sent.expect("somebody reads").expect("it is not dropped");
    }

    assert_eq!(site.state("7").await, Some(OnceState::InProgress));

    drop(sender);
    site.becomes("7", Some(OnceState::Done)).await;
}

/// Nothing but the layer takes what it sends, so nothing but the layer slows it down.
#[tokio::test]
async fn endless_stream_stops_without_its_client() {
    let site = Site::open(|layer| layer.unknown(UnknownOutcome::Hold(HOUR))).await;
    let sender = site.orders.stream("7");
    let endless = tokio::spawn(async move { while sender.send(Ok(event(1))).await.is_ok() {} });
    let mut stream = site.track("7").await;
    stream.message().await.unwrap().unwrap();

    drop(stream);

    let stopped = tokio::time::timeout(HANG_GUARD, endless).await;
    stopped.expect("the service's stream is dropped").unwrap();
    site.becomes("7", Some(OnceState::Unknown)).await;
}

#[tokio::test]
async fn undetached_dropped_stream_is_unknown() {
    let site = Site::open(|layer| layer.unknown(UnknownOutcome::Hold(HOUR)).detached(false)).await;
    let sender = site.orders.stream("7");
    let mut stream = site.track("7").await;
    sender.send(Ok(event(1))).await.unwrap();
    stream.message().await.unwrap().unwrap();
    drop(stream);
    let dropped = tokio::time::timeout(HANG_GUARD, sender.closed()).await;
    dropped.expect("the service's stream is dropped");

    site.becomes("7", Some(OnceState::Unknown)).await;
}

#[tokio::test]
async fn overlong_stream_ends_with_a_status() {
    let hold = Duration::from_secs(1);
    let site = Site::open(|layer| layer.max_hold(hold).unknown(UnknownOutcome::Hold(HOUR))).await;
    let sender = site.orders.stream("7");
    let mut stream = site.track("7").await;

    sender.send(Ok(event(1))).await.unwrap();

    assert_eq!(stream.message().await.unwrap().unwrap().line, 1);

    let status = stream.message().await.unwrap_err();
    assert_lost(&status);
    assert!(status.source().is_none(), "{status:?}");

    eventually_async("the service's stream was dropped", async || sender.is_closed()).await;
    site.becomes("7", Some(OnceState::Unknown)).await;
}
