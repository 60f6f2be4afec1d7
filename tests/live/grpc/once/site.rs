//! A gRPC server whose methods run once per order, over servers for locks.

use std::time::Duration;

use tonic::{Code, Status, transport::Server};
use tower_redlock::{
    OnceLayer, Redlock,
    key::{self, Header, Key},
    once::{
        Always, OnceState,
        grpc::{CompletesGrpc, OnceGrpc},
    },
    reject::OnReject,
};

use crate::grpc::{
    orders::{
        Orders,
        generated::{Event, TrackRequest, orders_server::OrdersServer},
    },
    site::{Client, TTL, details, locks, manager, of, place, serve},
};
use crate::support::{RedisServer, eventually_async};

pub(crate) type Layer = OnceLayer<Key<Header>, Always, OnceGrpc>;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct Site {
    servers: Vec<RedisServer>,
    pub(crate) redlock: Redlock,
    pub(crate) orders: Orders,
    pub(crate) client: Client,
}

pub(crate) fn layer(redlock: &Redlock) -> Layer {
    OnceLayer::new(redlock.clone(), "orders", key::header("order-id")).grpc()
}

impl Site {
    /// With the layer around the whole gRPC server.
    pub(crate) async fn open(adjust: impl FnOnce(Layer) -> Layer) -> Self {
        let (servers, redlock) = locks(TTL).await;
        let orders = Orders::default();
        let client = serve_orders(adjust(layer(&redlock)), &orders).await;
        Self { servers, redlock, orders, client }
    }

    /// Another process with the same service, over the same servers.
    pub(crate) async fn replica(&self) -> Client {
        let redlock = manager(&self.servers, TTL);
        redlock.ready().await.unwrap();
        serve_orders(layer(&redlock), &self.orders).await
    }

    pub(crate) async fn place(&self, order: &str, item: &str) -> Result<u64, Status> {
        place(&self.client, order, item).await
    }

    pub(crate) async fn track(&self, order: &str) -> tonic::Streaming<Event> {
        let request = of(order, TrackRequest {});
        self.client.clone().track(request).await.expect("tracked").into_inner()
    }

    /// Sends a call whose method does not end, and waits until it is there.
    pub(crate) async fn stuck(&self, order: &str) -> tokio::task::JoinHandle<Result<u64, Status>> {
        let (client, order) = (self.client.clone(), order.to_owned());
        let before = self.orders.entered();
        let call = tokio::spawn(async move { place(&client, &order, "stuck").await });
        eventually_async("the method runs", async || self.orders.entered() > before).await;
        call
    }

    pub(crate) async fn state(&self, order: &str) -> Option<OnceState> {
        let key = self.redlock.once_key(format!("layer:orders:{order}"));
        key.status().await.unwrap().map(|status| status.state)
    }

    pub(crate) async fn becomes(&self, order: &str, state: Option<OnceState>) {
        eventually_async("the state of the key", async || self.state(order).await == state).await;
    }
}

pub(crate) async fn serve_orders<C, R>(
    layer: OnceLayer<Key<Header>, C, OnceGrpc<R>>,
    orders: &Orders,
) -> Client
where
    C: CompletesGrpc + Clone + Send + Sync + 'static,
    R: OnReject<Status> + Clone + Send + Sync + 'static,
{
    let server = Server::builder().layer(layer).add_service(OrdersServer::new(orders.clone()));
    Client::new(serve(|incoming| server.serve_with_incoming(incoming)).await)
}

#[track_caller]
pub(crate) fn assert_info(status: &Status, code: Code, reason: &str, outcome: &str) {
    let details = details(status, code);
    let info = details.error_info().expect("ErrorInfo");
    assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, "tower-redlock"));
    assert_eq!(info.metadata["outcome"], outcome);
}

#[track_caller]
pub(crate) fn assert_duplicate(answer: Result<u64, Status>) {
    let status = answer.expect_err("a duplicate");
    assert_info(&status, Code::AlreadyExists, "DUPLICATE", "done");
    assert_eq!(status.metadata().get("once").unwrap(), "duplicate");
}
