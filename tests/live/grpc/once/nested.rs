//! Methods inside several layers: each layer's lock by its name.

use std::convert::Infallible;

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use tonic::{Code, body::Body, transport::Server};
use tower::{Layer, ServiceExt, service_fn};
use tower_redlock::{LockContext, Redlock, RedlockLayer, key, once::UnknownOutcome};

use super::site::{HOUR, assert_duplicate, assert_info, layer};
use crate::grpc::{
    orders::{Orders, generated::orders_server::OrdersServer},
    site::{Client, TTL, locks, place, serve},
};
use crate::support::eventually_async;

#[track_caller]
fn assert_found(orders: &Orders, expected: [&str; 2]) {
    let contexts = orders.contexts().expect("behind layers");
    let names = |context: &LockContext| context.resource().to_string();
    assert_eq!(contexts.iter().map(names).collect::<Vec<_>>(), expected);
    assert_eq!(contexts.get("orders").map(names).as_deref(), Some("once:layer:orders:7"));
    assert_eq!(contexts.get("lines").map(names).as_deref(), Some("lines:7"));
    assert_eq!(orders.context().as_ref().map(names).as_deref(), Some(expected[1]));
}

#[tokio::test]
async fn both_orders_have_both_contexts() {
    for is_lock_inside in [true, false] {
        let (_servers, redlock) = locks(TTL).await;
        let orders = Orders::default();
        let lines = key::header("order-id").prefixed("lines:");
        let lines = RedlockLayer::new(redlock.clone(), lines).named("lines").grpc();
        let once = layer(&redlock);
        let service = OrdersServer::new(orders.clone());
        let channel = if is_lock_inside {
            let server = Server::builder().layer(once).layer(lines).add_service(service);
            serve(|incoming| server.serve_with_incoming(incoming)).await
        } else {
            let server = Server::builder().layer(lines).layer(once).add_service(service);
            serve(|incoming| server.serve_with_incoming(incoming)).await
        };
        let client = Client::new(channel);
        let call = tokio::spawn({
            let client = client.clone();
            async move { place(&client, "7", "stuck").await }
        });
        eventually_async("the method runs", async || orders.entered() == 1).await;
        let expected = ["once:layer:orders:7", "lines:7"];
        assert_found(
            &orders,
            if is_lock_inside { expected } else { ["lines:7", "once:layer:orders:7"] },
        );
        orders.let_go();
        call.await.unwrap().expect("it ends");
        assert_duplicate(place(&client, "7", "").await);
        assert_eq!(orders.entered(), 1);
    }
}

/// The method had no effect, and reports that: the call can be retried.
#[tokio::test]
async fn held_lock_inside_leaves_key_free() {
    let (_servers, redlock) = locks(TTL).await;
    let orders = Orders::default();
    let lines = RedlockLayer::new(redlock.clone(), key::header("order-id")).grpc();
    let service = OrdersServer::new(orders.clone());
    let server = Server::builder().layer(layer(&redlock)).layer(lines).add_service(service);
    let client = Client::new(serve(|incoming| server.serve_with_incoming(incoming)).await);
    let lock = redlock.lock("7").await.unwrap();

    let status = place(&client, "7", "").await.unwrap_err();

    assert_eq!((status.code(), orders.entered()), (Code::Aborted, 0));

    lock.release().await.unwrap();
    place(&client, "7", "").await.expect("free");
    assert_info(
        &place(&client, "7", "").await.unwrap_err(),
        Code::AlreadyExists,
        "DUPLICATE",
        "done",
    );
}

/// Its response has no gRPC status, but a marked outcome.
#[tokio::test]
async fn inner_http_rejection_frees_the_key() {
    let redlock = Redlock::embedded();
    let _held = redlock.lock("account").await.unwrap();
    let unreached = service_fn(|_: Request<()>| async {
        unreachable!("the account is locked");
        #[expect(unreachable_code, reason = "tells the type of the response")]
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let inner = RedlockLayer::new(redlock.clone(), |_: &Request<()>| "account").http();
    let call = layer(&redlock).unknown(UnknownOutcome::Hold(HOUR)).layer(inner.layer(unreached));
    let request = Request::post("/").header("order-id", "7").body(()).unwrap();

    let response = call.oneshot(request).await.unwrap();

    assert_eq!(response.status(), StatusCode::CONFLICT);

    response.into_body().collect().await.unwrap();
    assert_eq!(redlock.once_key("layer:orders:7").status().await.unwrap(), None);
}
