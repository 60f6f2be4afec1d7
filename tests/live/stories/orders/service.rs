//! The service: each call runs under the lock of its order.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, stream::unfold};
use http::HeaderMap;
use tonic::{Request, Response, Status, body::Body};
use tower_redlock::{
    LockContext, Redlock, RedlockLayer,
    layer::{KeyError, grpc::RedlockGrpc},
};

use super::{
    book::{Book, Line, Order, StaleToken},
    generated::{Event, PlaceRequest, Receipt, TrackRequest, orders_server},
};

const TTL: Duration = Duration::from_secs(1);
/// How long a call waits for the lock of an order.
const WAIT: Duration = Duration::from_millis(50);
/// How long a call waits for the lock of an item.
const WAIT_FOR_ITEM: Duration = Duration::from_secs(2);
/// Pause between two events of a stream.
const PACE: Duration = Duration::from_millis(2);

type Key = fn(&http::Request<Body>) -> Result<String, KeyError>;

/// The layer sees the request before its message is decoded, so the key is in the metadata.
pub(crate) fn one_at_a_time(redlock: &Redlock) -> RedlockLayer<Key, RedlockGrpc> {
    let key: Key = |request| order_id(request.headers()).map(|id| format!("order:{id}"));
    RedlockLayer::new(redlock.clone(), key).ttl(TTL).wait(WAIT).grpc()
}

fn order_id(headers: &HeaderMap) -> Result<u32, KeyError> {
    let id = headers.get("order-id").and_then(|id| id.to_str().ok()?.parse().ok());
    id.ok_or_else(|| KeyError::new("the metadata order-id is not a number"))
}

pub(crate) struct Orders {
    pub(crate) redlock: Redlock,
    pub(crate) book: Arc<Book>,
}

impl Orders {
    fn order<T>(&self, request: &Request<T>) -> Result<(Arc<Order>, LockContext), Status> {
        let id = order_id(request.metadata().as_ref());
        let id = id.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let lock = request.extensions().get::<LockContext>();
        let lock = lock.ok_or_else(|| Status::internal("not behind the layer"))?;
        Ok((self.book.order(id), lock.clone()))
    }
}

#[tonic::async_trait]
impl orders_server::Orders for Orders {
    type TrackStream = Pin<Box<dyn Stream<Item = Result<Event, Status>> + Send>>;

    async fn place(&self, request: Request<PlaceRequest>) -> Result<Response<Receipt>, Status> {
        let (order, lock) = self.order(&request)?;
        let _visit = order.users.enter();
        let PlaceRequest { item, quantity } = request.into_inner();
        // A second lock, for a name in the message. Every call locks orders before items, so no two
        // wait for each other.
        let stock = self.redlock.lock(format!("item:{item}")).ttl(TTL).wait(WAIT_FOR_ITEM);
        let take = async |lock: LockContext| {
            Ok::<_, Status>(self.book.take(&item, quantity, lock.fencing_token()).await?)
        };
        stock.try_run(take).await?;
        let line = Line { item: item.clone(), quantity };
        let lines = order.add(line, lock.fencing_token())?;
        Ok(Response::new(Receipt { lines, token: lock.fencing_token().get() }))
    }

    async fn track(
        &self,
        request: Request<TrackRequest>,
    ) -> Result<Response<Self::TrackStream>, Status> {
        let (order, _) = self.order(&request)?;
        let visit = order.users.enter();
        let events = unfold((order, visit, 0), async |(order, visit, sent)| {
            tokio::time::sleep(PACE).await;
            let event = order.line(sent)?;
            Some((Ok(event), (order, visit, sent + 1)))
        });
        Ok(Response::new(Box::pin(events)))
    }
}

impl From<StaleToken> for Status {
    fn from(StaleToken: StaleToken) -> Self {
        Self::failed_precondition("a call with a newer lock has already written")
    }
}
