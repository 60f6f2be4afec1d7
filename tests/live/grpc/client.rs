//! The layer around a client's channel: calls are sent one at a time.

use std::{error::Error as _, time::Duration};

use tonic::{
    Code,
    transport::{Channel, Server},
};
use tower::{Layer, ServiceBuilder};
use tower_redlock::{LockError, RedlockLayer, layer::GuardError};

use crate::grpc::{
    orders::{
        Orders,
        generated::{
            PlaceRequest, TrackRequest, orders_client::OrdersClient, orders_server::OrdersServer,
        },
    },
    site::{Key, TTL, assert_lost, details, event, layer, locks, manager, of, order_id, serve},
};
use crate::support::{HANG_GUARD, eventually_async};

/// A server without locks.
async fn unguarded() -> (Orders, Channel) {
    let orders = Orders::default();
    let server = Server::builder().add_service(OrdersServer::new(orders.clone()));
    (orders, serve(|incoming| server.serve_with_incoming(incoming)).await)
}

fn request(item: &str) -> tonic::Request<PlaceRequest> {
    of("7", PlaceRequest { item: item.to_owned(), quantity: 1 })
}

#[tokio::test]
async fn with_statuses() {
    let (servers, redlock) = locks(TTL).await;
    let (orders, channel) = unguarded().await;
    let other = manager(&servers, TTL);
    other.ready().await.unwrap();
    let stack = ServiceBuilder::new().timeout(HANG_GUARD).layer(layer(&redlock));
    let stack = stack.concurrency_limit(1).service(channel.clone());
    let mut first = OrdersClient::new(stack);
    let mut second = OrdersClient::new(layer(&other).layer(channel));
    let call = tokio::spawn(async move { first.place(request("stuck")).await });
    eventually_async("the call is there", async || orders.entered() == 1).await;

    let status = second.place(request("")).await.unwrap_err();

    assert!(details(&status, Code::Aborted).retry_info().is_some());
    assert_eq!(orders.entered(), 1, "nothing was sent");

    orders.let_go();
    call.await.unwrap().unwrap();
    redlock.shutdown().await;
    second.place(request("")).await.expect("free");
    let status = second.place(PlaceRequest::default()).await.unwrap_err();

    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn response_stream_ends_with_the_lock() {
    let (_servers, redlock) = locks(TTL).await;
    let (orders, channel) = unguarded().await;
    let layer = layer(&redlock).max_hold(Duration::from_secs(2));
    let mut client = OrdersClient::new(layer.layer(channel));
    let sender = orders.stream("7");
    sender.send(Ok(event(1))).await.unwrap();

    let mut stream = client.track(of("7", TrackRequest {})).await.unwrap().into_inner();

    assert_eq!(stream.message().await.unwrap().unwrap().line, 1);
    assert!(redlock.inspect("7").await.unwrap().is_some(), "held");
    assert_eq!(client.place(request("")).await.unwrap_err().code(), Code::Aborted);
    assert_lost(&stream.message().await.unwrap_err());

    let dropped = tokio::time::timeout(HANG_GUARD, sender.closed()).await;
    dropped.expect("the server hears of it");
    client.place(request("")).await.expect("free");
}

#[tokio::test]
async fn with_lock_errors_in_the_errors() {
    let (_servers, redlock) = locks(TTL).await;
    let (orders, channel) = unguarded().await;
    let layer = RedlockLayer::new(redlock.clone(), order_id as Key);
    let client = OrdersClient::new(ServiceBuilder::new().layer(layer).service(channel));
    let mut first = client.clone();
    let call = tokio::spawn(async move { first.place(request("stuck")).await });
    eventually_async("the call is there", async || orders.entered() == 1).await;
    let status = client.clone().place(request("")).await.unwrap_err();

    let error = status.source().and_then(|error| error.downcast_ref());

    let Some(GuardError::<tonic::transport::Error>::Lock(LockError::Held { .. })) = error else {
        panic!("{status:?}");
    };
    assert_eq!(orders.entered(), 1, "nothing was sent");

    orders.let_go();
    call.await.unwrap().unwrap();
    client.clone().place(request("")).await.expect("free");
}
