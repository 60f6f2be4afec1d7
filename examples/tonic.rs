//! gRPC calls for one order run one at a time, and an order does not change while it is streamed.
//!
//! ```text
//! cargo run --example tonic --features tonic
//!
//! alias orders='grpcurl -plaintext -proto examples/proto/orders.proto -H order-id:7'
//! orders -d '{"item": "tea", "quantity": 2}' localhost:50051 orders.v1.Orders/Place
//! orders localhost:50051 orders.v1.Orders/Track
//! ```
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. `LISTEN` is the address to listen on. Ctrl-C stops it.

use std::{
    collections::HashMap,
    env,
    error::Error,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{Stream, stream};
use http::HeaderMap;
use tokio::{net::TcpListener, signal, time::sleep};
use tonic::{
    Request, Response, Status,
    body::Body,
    transport::{Server, server::TcpIncoming},
};
use tower::Layer;
use tower_redlock::{LockContext, Redlock, RedlockLayer, layer::KeyError};

use self::orders::{
    Event, PlaceRequest, Receipt, TrackRequest,
    orders_server::{self, OrdersServer},
};

/// Generated from `proto/orders.proto`.
mod orders {
    #![allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, reason = "generated")]
    include!("proto/orders.v1.rs");
}

/// The layer sees the request before its message is decoded, so the key is in the metadata.
fn order_key(request: &http::Request<Body>) -> Result<String, KeyError> {
    let id = order_id(request.headers()).ok_or_else(|| KeyError::new("no order-id"))?;
    Ok(format!("order:{id}"))
}

fn order_id(metadata: &HeaderMap) -> Option<u32> {
    metadata.get("order-id")?.to_str().ok()?.parse().ok()
}

/// The lines of each order: an article and its quantity.
type Orders = HashMap<u32, Vec<(String, u32)>>;

struct Service {
    redlock: Redlock,
    /// Represents a database: the lines of each order.
    lines: Arc<Mutex<Orders>>,
}

#[tonic::async_trait]
impl orders_server::Orders for Service {
    /// A stream is polled under the lock, and dropped when the lock ends. A task that feeds a
    /// channel would continue.
    type TrackStream = Pin<Box<dyn Stream<Item = Result<Event, Status>> + Send>>;

    async fn place(&self, request: Request<PlaceRequest>) -> Result<Response<Receipt>, Status> {
        // The layer has inserted the lock, and has rejected calls without an order-id.
        let lock = request.extensions().get::<LockContext>().expect("behind the layer");
        let token = lock.fencing_token();
        let id = order_id(request.metadata().as_ref()).expect("behind the layer");
        let PlaceRequest { item, quantity } = request.into_inner();

        // A second lock, for a name that is in the message. Every call locks in the same order
        // (orders, then items), so no two wait for each other.
        let stock = self.redlock.lock(format!("item:{item}")).wait(Duration::from_secs(2));
        stock.try_run(async |_| reserve(&item, quantity).await).await?;

        let mut lines = self.lines.lock().unwrap();
        let lines = lines.entry(id).or_default();
        lines.push((item, quantity));
        let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        Ok(Response::new(Receipt { lines: count, token: token.get() }))
    }

    async fn track(
        &self,
        request: Request<TrackRequest>,
    ) -> Result<Response<Self::TrackStream>, Status> {
        let id = order_id(request.metadata().as_ref()).expect("behind the layer");
        let lines = Arc::clone(&self.lines);
        let events = stream::unfold(0, move |sent| {
            let event = event(&lines.lock().unwrap(), id, sent);
            async move {
                sleep(Duration::from_millis(2)).await;
                Some((Ok(event?), sent + 1))
            }
        });
        Ok(Response::new(Box::pin(events)))
    }
}

fn event(orders: &HashMap<u32, Vec<(String, u32)>>, id: u32, sent: usize) -> Option<Event> {
    let lines = orders.get(&id)?;
    let (item, quantity) = lines.get(sent)?.clone();
    let [line, lines] = [sent + 1, lines.len()].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Some(Event { line, lines, item, quantity })
}

async fn reserve(item: &str, quantity: u32) -> Result<(), Status> {
    sleep(Duration::from_millis(5)).await;
    println!("reserved {quantity} of {item}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = match env::var("REDLOCK_NODES") {
        Ok(urls) => Redlock::builder().nodes(urls.split(',')).build()?,
        Err(_) => Redlock::embedded(),
    };
    // A new or restarted server votes after `max_ttl` (10 s): it may have forgotten locks.
    redlock.ready_within(Duration::from_secs(60)).await?;

    // A call that does not get the lock within 500 ms ends with ABORTED, one that finds no quorum of
    // nodes with UNAVAILABLE, both with a RetryInfo.
    let one_order = RedlockLayer::new(redlock.clone(), order_key);
    let one_order = one_order.wait(Duration::from_millis(500)).grpc();
    let service = Service { redlock: redlock.clone(), lines: Arc::default() };

    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:50051".into());
    let listener = TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Server::builder()
        // Only around this service: health checks and reflection have no `order-id`.
        .add_service(one_order.layer(OrdersServer::new(service)))
        .serve_with_incoming_shutdown(TcpIncoming::from(listener), async {
            signal::ctrl_c().await.unwrap_or_default();
        })
        .await?;
    // Waits until the nodes have acknowledged every release.
    redlock.shutdown().await;
    Ok(())
}
