//! Calls of methods that no service has: a layer does not change `UNIMPLEMENTED`.

use tonic::{
    Code, Status,
    client::Grpc,
    transport::{Channel, Server},
};
use tonic_prost::ProstCodec;
use tower::Layer;
use tower_redlock::{OnceLayer, RedlockLayer, key};

use crate::grpc::{
    orders::{
        Orders,
        generated::{PlaceRequest, Receipt, orders_server::OrdersServer},
    },
    site::{TTL, locks, serve},
};

/// Calls a method of this path, with the order 7 or none.
async fn call(channel: &Channel, path: &'static str, order: Option<&'static str>) -> Status {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let mut request = tonic::Request::new(PlaceRequest::default());
    if let Some(order) = order {
        request.metadata_mut().insert("order-id", order.parse().unwrap());
    }
    let codec = ProstCodec::<PlaceRequest, Receipt>::default();
    let path = http::uri::PathAndQuery::from_static(path);
    client.unary(request, path, codec).await.expect_err("no such method")
}

const PATHS: [&str; 2] = ["/orders.v1.Orders/Nothing", "/nowhere.v1.Nothing/Place"];

#[tokio::test]
async fn unimplemented_passes_around_a_server() {
    let (_servers, redlock) = locks(TTL).await;
    let key = || key::header("order-id").optional();
    let service = || OrdersServer::new(Orders::default());
    let lock = RedlockLayer::new(redlock.clone(), key()).grpc();
    let once = OnceLayer::new(redlock.clone(), "orders", key()).grpc();
    let locked = Server::builder().layer(lock).add_service(service());
    let locked = serve(|incoming| locked.serve_with_incoming(incoming)).await;
    let once = Server::builder().layer(once).add_service(service());
    let once = serve(|incoming| once.serve_with_incoming(incoming)).await;

    for channel in [&locked, &once] {
        for path in PATHS {
            for order in [Some("7"), None] {
                assert_eq!(call(channel, path, order).await.code(), Code::Unimplemented, "{path}");
            }
        }
    }

    assert_eq!(redlock.lock("7").await.map(drop), Ok(()));
    assert_eq!(redlock.once_key("layer:orders:7").status().await, Ok(None));
}

/// A missing key fails only the calls of the service that needs it.
#[tokio::test]
async fn unimplemented_passes_around_one_service() {
    let (_servers, redlock) = locks(TTL).await;
    let key = || key::header("order-id");
    let service = || OrdersServer::new(Orders::default());
    let lock = RedlockLayer::new(redlock.clone(), key()).grpc().layer(service());
    let once = OnceLayer::new(redlock.clone(), "orders", key()).grpc().layer(service());
    let locked = Server::builder().add_service(lock);
    let locked = serve(|incoming| locked.serve_with_incoming(incoming)).await;
    let once = Server::builder().add_service(once);
    let once = serve(|incoming| once.serve_with_incoming(incoming)).await;

    for channel in [&locked, &once] {
        let [inside, outside] = PATHS;
        assert_eq!(call(channel, outside, None).await.code(), Code::Unimplemented);
        assert_eq!(call(channel, inside, Some("7")).await.code(), Code::Unimplemented);
        assert_eq!(call(channel, inside, None).await.code(), Code::InvalidArgument);
    }
}
