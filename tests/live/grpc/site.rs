//! Servers for locks, a gRPC server whose methods run one at a time per order, and its client.

use std::{future::Future, time::Duration};

use tokio::net::TcpListener;
use tonic::{
    Code, Request, Status,
    body::Body,
    transport::{Channel, Endpoint, Error, Server, server::TcpIncoming},
};
use tonic_types::{ErrorDetails, StatusExt};
use tower_redlock::{
    Redlock, RedlockLayer,
    layer::{KeyError, ResourceKey, grpc::RedlockGrpc},
    lock::Released,
};

use crate::grpc::orders::{
    Orders,
    generated::{
        Event, PlaceRequest, TrackRequest, orders_client::OrdersClient, orders_server::OrdersServer,
    },
};
use crate::support::{RedisServer, eventually_async, over, urls};

pub(crate) type Client = OrdersClient<Channel>;
pub(crate) type Key = fn(&http::Request<Body>) -> Result<Option<String>, KeyError>;
pub(crate) type Layer = RedlockLayer<Key, RedlockGrpc>;

/// Longer than any test runs: a name that is free before was released.
pub(crate) const TTL: Duration = Duration::from_secs(60);

pub(crate) struct Site {
    pub(crate) servers: Vec<RedisServer>,
    /// The manager of the gRPC server.
    pub(crate) redlock: Redlock,
    pub(crate) orders: Orders,
    pub(crate) client: Client,
}

impl Site {
    /// With the layer around the whole gRPC server.
    pub(crate) async fn open<K>(adjust: impl FnOnce(Layer) -> RedlockLayer<K, RedlockGrpc>) -> Self
    where
        K: ResourceKey<http::Request<Body>> + Clone + Send + Sync + 'static,
    {
        let (servers, redlock) = locks(TTL).await;
        Self::over(servers, redlock, adjust).await
    }

    pub(crate) async fn over<K>(
        servers: Vec<RedisServer>,
        redlock: Redlock,
        adjust: impl FnOnce(Layer) -> RedlockLayer<K, RedlockGrpc>,
    ) -> Self
    where
        K: ResourceKey<http::Request<Body>> + Clone + Send + Sync + 'static,
    {
        let (layer, orders) = (adjust(layer(&redlock)), Orders::default());
        let server = Server::builder().layer(layer).add_service(OrdersServer::new(orders.clone()));
        let channel = serve(|incoming| server.serve_with_incoming(incoming)).await;
        Self { servers, redlock, orders, client: Client::new(channel) }
    }

    /// The manager of another process, over the same servers.
    pub(crate) fn other(&self) -> Redlock {
        manager(&self.servers, TTL)
    }

    pub(crate) fn kill_a_majority(&mut self) {
        self.servers[..2].iter_mut().for_each(RedisServer::kill);
    }

    pub(crate) async fn place(&self, order: &str, item: &str) -> Result<u64, Status> {
        place(&self.client, order, item).await
    }

    /// Sends a request whose method does not end, and waits until it is there.
    pub(crate) async fn stuck(&self, order: &str) -> tokio::task::JoinHandle<Result<u64, Status>> {
        let (client, order) = (self.client.clone(), order.to_owned());
        let before = self.orders.entered();
        let call = tokio::spawn(async move { place(&client, &order, "stuck").await });
        eventually_async("the method runs", async || self.orders.entered() > before).await;
        call
    }

    pub(crate) async fn track(&self, order: &str) -> tonic::Streaming<Event> {
        let request = of(order, TrackRequest {});
        self.client.clone().track(request).await.expect("tracked").into_inner()
    }

    /// Checks that the order is released at once, and not at the end of its TTL.
    pub(crate) async fn is_free(&self, order: &str) {
        let lock = self.redlock.lock(order).await.expect("free");
        assert_eq!(lock.release().await, Ok(Released::Released));
    }

    pub(crate) async fn becomes_free(&self, order: &str) {
        let free = async || self.redlock.inspect(order).await.is_ok_and(|held| held.is_none());
        eventually_async("the lock is given back", free).await;
        self.is_free(order).await;
    }
}

pub(crate) async fn locks(ttl: Duration) -> (Vec<RedisServer>, Redlock) {
    let servers = RedisServer::start_n(3);
    let redlock = manager(&servers, ttl);
    redlock.ready().await.unwrap();
    (servers, redlock)
}

pub(crate) fn manager(servers: &[RedisServer], ttl: Duration) -> Redlock {
    let builder = over(Redlock::builder(), urls(servers)).ttl(ttl);
    builder.node_timeout((ttl / 10).min(Duration::from_secs(3))).build().unwrap()
}

pub(crate) fn layer(redlock: &Redlock) -> Layer {
    RedlockLayer::new(redlock.clone(), order_id as Key).grpc()
}

/// The metadata `order-id`; with `none`, no lock is needed.
pub(crate) fn order_id<B>(request: &http::Request<B>) -> Result<Option<String>, KeyError> {
    let value = request.headers().get("order-id").and_then(|value| value.to_str().ok());
    let order = value.ok_or_else(|| KeyError::new("the metadata order-id is missing"))?;
    Ok((order != "none").then(|| order.to_owned()))
}

/// Starts a server on its own port, and connects to it.
pub(crate) async fn serve<F>(run: impl FnOnce(TcpIncoming) -> F) -> Channel
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(run(TcpIncoming::from(listener)));
    Endpoint::from_shared(url).unwrap().connect().await.unwrap()
}

pub(crate) fn of<T>(order: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("order-id", order.parse().unwrap());
    request
}

/// The token that the method saw.
pub(crate) async fn place(client: &Client, order: &str, item: &str) -> Result<u64, Status> {
    let message = PlaceRequest { item: item.to_owned(), quantity: 1 };
    let receipt = client.clone().place(of(order, message)).await?;
    Ok(receipt.into_inner().token)
}

pub(crate) fn event(line: u32) -> Event {
    Event { line, ..Event::default() }
}

/// The details of a status with this code.
#[track_caller]
pub(crate) fn details(status: &Status, code: Code) -> ErrorDetails {
    assert_eq!(status.code(), code, "{status:?}");
    status.get_error_details()
}

#[track_caller]
pub(crate) fn assert_lost(status: &Status) {
    let details = details(status, Code::Unknown);
    let info = details.error_info().expect("ErrorInfo");
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("LOCK_LOST", "tower-redlock"));
    assert_eq!(info.metadata["outcome"], "unknown");
    assert!(details.retry_info().is_none(), "the outcome is unknown");
}
