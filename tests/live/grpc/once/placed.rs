//! Valid positions of the layer: around one service, around a client's channel.

use tonic::{server::NamedService, transport::Server};
use tower::{Layer, ServiceBuilder};

use super::site::{assert_duplicate, layer};
use crate::grpc::{
    orders::{
        Orders,
        generated::{PlaceRequest, orders_client::OrdersClient, orders_server::OrdersServer},
    },
    site::{Client, TTL, locks, of, place, serve},
};
use crate::support::HANG_GUARD;

fn name<S: NamedService>(_: &S) -> &'static str {
    S::NAME
}

#[tokio::test]
async fn around_one_service() {
    let (_servers, redlock) = locks(TTL).await;
    let orders = Orders::default();

    let service = layer(&redlock).layer(OrdersServer::new(orders.clone()));

    assert_eq!(name(&service), "orders.v1.Orders");

    let server = Server::builder().add_service(service);
    let client = Client::new(serve(|incoming| server.serve_with_incoming(incoming)).await);
    place(&client, "7", "").await.expect("it runs");
    assert_duplicate(place(&client, "7", "").await);
    assert_eq!(orders.entered(), 1);
}

#[tokio::test]
async fn around_a_clients_channel() {
    let (_servers, redlock) = locks(TTL).await;
    let orders = Orders::default();
    let server = Server::builder().add_service(OrdersServer::new(orders.clone()));
    let channel = serve(|incoming| server.serve_with_incoming(incoming)).await;
    let stack = ServiceBuilder::new().timeout(HANG_GUARD).layer(layer(&redlock)).service(channel);
    let mut client = OrdersClient::new(stack);
    let mut send = async || {
        let sent = client.place(of("7", PlaceRequest::default())).await;
        sent.map(|receipt| receipt.into_inner().token)
    };

    send().await.expect("it runs");

    assert_duplicate(send().await);
    assert_eq!(orders.entered(), 1, "nothing was sent");
}
