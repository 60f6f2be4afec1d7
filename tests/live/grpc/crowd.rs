//! Many clients at once, through the servers of three processes.

use tokio::task::JoinSet;
use tonic::{Status, transport::Server};

use crate::grpc::{
    orders::{
        Orders,
        generated::{TrackRequest, orders_server::OrdersServer},
    },
    site::{Client, TTL, layer, locks, manager, of, place, serve},
};
use crate::support::HANG_GUARD;

const CALLS: usize = 60;

/// Reads to the end.
async fn track(mut client: Client, order: &str) -> Result<usize, Status> {
    let mut stream = client.track(of(order, TrackRequest {})).await?.into_inner();
    let mut events = 0;
    while stream.message().await?.is_some() {
        events += 1;
    }
    Ok(events)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_exclude_each_other_without_starvation() {
    let (servers, _) = locks(TTL).await;
    let orders = Orders::default();
    let mut clients = Vec::new();
    for _ in 0..3 {
        let redlock = manager(&servers, TTL);
        redlock.ready().await.unwrap();
        let server = Server::builder()
            .layer(layer(&redlock).wait(HANG_GUARD * 3))
            .add_service(OrdersServer::new(orders.clone()));
        let channel = serve(|incoming| server.serve_with_incoming(incoming)).await;
        clients.push(Client::new(channel));
    }
    let mut calls = JoinSet::new();
    for i in 0..CALLS {
        let (client, order) = (clients[i % 3].clone(), ["7", "8"][i / 3 % 2]);
        calls.spawn(async move {
            if i % 4 == 0 {
                assert_eq!(track(client, order).await.unwrap(), 3);
            } else {
                place(&client, order, "busy").await.unwrap();
            }
        });
    }

    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }

    assert_eq!((orders.entered(), orders.left(), orders.overlaps()), (CALLS, CALLS, 0));
}
