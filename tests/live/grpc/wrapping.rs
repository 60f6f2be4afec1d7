//! Valid positions of the layer: around a server, around one service, among other layers.

use std::time::Duration;

use tonic::{
    Code, Request, Status,
    server::NamedService,
    service::{LayerExt, interceptor::InterceptorLayer},
    transport::{Channel, Server},
};
use tower::{Layer, ServiceBuilder};
use tower_redlock::{LockContext, LockError, reject::Rejection};

use crate::grpc::{
    orders::{Orders, generated::orders_server::OrdersServer},
    site::{Client, Site, TTL, layer, locks, serve},
};
use crate::support::eventually_async;

/// A site whose gRPC server is made by hand.
async fn site(make: impl AsyncFnOnce(crate::grpc::site::Layer, Orders) -> Channel) -> Site {
    let (servers, redlock) = locks(TTL).await;
    let orders = Orders::default();
    let channel = make(layer(&redlock), orders.clone()).await;
    Site { servers, redlock, orders, client: Client::new(channel) }
}

/// Calls run one at a time, and the lock is released.
async fn excludes(site: &Site) {
    let first = site.stuck("7").await;
    assert_eq!(site.place("7", "").await.unwrap_err().code(), Code::Aborted);
    site.place("8", "").await.expect("another order");
    site.orders.let_go();
    assert_ne!(first.await.unwrap().unwrap(), 0);
    site.is_free("7").await;
    assert_eq!((site.orders.entered(), site.orders.overlaps()), (2, 0));
}

#[tokio::test]
async fn wrapped_service_keeps_its_name() {
    let site = site(async |layer, orders| {
        let service = layer.layer(OrdersServer::new(orders));
        assert_eq!(name(&service), "orders.v1.Orders");
        serve(|incoming| Server::builder().add_service(service).serve_with_incoming(incoming)).await
    })
    .await;
    excludes(&site).await;
}

fn name<S: NamedService>(_: &S) -> &'static str {
    S::NAME
}

#[tokio::test]
async fn interceptor_sees_the_context() {
    let site = site(async |layer, orders| {
        let under_lock = |request: Request<()>| match request.extensions().get::<LockContext>() {
            Some(context) if context.resource().names().eq(["barred"]) => {
                Err(Status::permission_denied("barred"))
            }
            Some(_) => Ok(request),
            None => Err(Status::internal("no lock")),
        };
        let service = OrdersServer::with_interceptor(orders, under_lock);
        let service = ServiceBuilder::new().concurrency_limit(10).layer(layer).named_layer(service);
        let server = Server::builder()
            .layer(ServiceBuilder::new().concurrency_limit(20))
            .layer(InterceptorLayer::new(Ok))
            .concurrency_limit_per_connection(10)
            .add_service(service);
        serve(|incoming| server.serve_with_incoming(incoming)).await
    })
    .await;
    excludes(&site).await;

    let barred = site.place("barred", "").await.unwrap_err();

    assert_eq!(barred.code(), Code::PermissionDenied);

    site.is_free("barred").await;
    assert_eq!(site.place("none", "").await.unwrap_err().message(), "no lock");
}

#[tokio::test]
async fn server_timeout_frees_the_order() {
    let site = site(async |layer, orders| {
        let server = Server::builder()
            .timeout(Duration::from_secs(1))
            .layer(layer)
            .add_service(OrdersServer::new(orders));
        serve(|incoming| server.serve_with_incoming(incoming)).await
    })
    .await;
    let status = site.stuck("7").await.await.unwrap().unwrap_err();

    assert_eq!(status.message(), "Timeout expired");

    eventually_async("the method is dropped", async || site.orders.left() == 1).await;
    site.becomes_free("7").await;
}

#[tokio::test]
async fn on_reject_replaces_the_status() {
    fn own(rejection: Rejection<'_>) -> Status {
        match rejection.lock_error().expect("an error of the lock").root() {
            LockError::Held { .. } => {
                let order = rejection.resource().map(ToString::to_string);
                Status::resource_exhausted(format!("{} is busy", order.unwrap_or_default()))
            }
            LockError::Lost { .. } => Status::data_loss("perhaps"),
            _ => rejection.grpc_status(),
        }
    }
    let site = site(async |layer, orders| {
        let layer = layer.max_hold(Duration::from_secs(2)).on_reject(own);
        let service = layer.token_header("token");
        let server = Server::builder().layer(service).add_service(OrdersServer::new(orders));
        serve(|incoming| server.serve_with_incoming(incoming)).await
    })
    .await;
    let stuck = site.stuck("7").await;

    let busy = site.place("7", "").await.unwrap_err();

    assert_eq!((busy.code(), busy.message()), (Code::ResourceExhausted, "7 is busy"));
    assert_eq!(stuck.await.unwrap().unwrap_err().code(), Code::DataLoss);
    assert_eq!(site.place("", "").await.unwrap_err().code(), Code::InvalidArgument);
}
