//! The service: each call runs only while the lock on its order is held.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, stream::unfold};
use http::HeaderMap;
use tonic::{Request, Response, Status, body::Body};
use tower_redlock::{
    LockContext, Redlock, RedlockLayer,
    layer::{KeyError, grpc::Grpc},
};

use crate::{
    book::{Book, Line, Order, StaleToken},
    orders::{Event, PlaceRequest, Receipt, TrackRequest, orders_server},
};

/// Also the longest time that a client is told to stay away.
const TTL: Duration = Duration::from_secs(1);
/// A call waits so long for its turn at an order, then its client is told when to come back.
const WAIT: Duration = Duration::from_millis(50);
/// Items are held for a moment only: better to wait than to turn the call away.
const WAIT_FOR_ITEM: Duration = Duration::from_secs(2);
/// Between two events of a stream.
const PACE: Duration = Duration::from_millis(2);

type Key = fn(&http::Request<Body>) -> Result<String, KeyError>;

/// The message is not decoded yet where the layer stands: the key is metadata.
pub(crate) fn one_at_a_time(redlock: &Redlock) -> RedlockLayer<Key, Grpc> {
    let key: Key = |request| order_id(request.headers()).map(|id| format!("order:{id}"));
    RedlockLayer::new(redlock.clone(), key).ttl(TTL).wait(WAIT).grpc()
}

fn order_id(headers: &HeaderMap) -> Result<u32, KeyError> {
    let id = headers.get("order-id").and_then(|id| id.to_str().ok()?.parse().ok());
    id.ok_or_else(|| KeyError::new("the metadata order-id is not a number"))
}

/// One replica's.
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
    // Polled under the lock, and dropped where that ends. A task that feeds a channel would go on.
    type TrackStream = Pin<Box<dyn Stream<Item = Result<Event, Status>> + Send>>;

    async fn place(&self, request: Request<PlaceRequest>) -> Result<Response<Receipt>, Status> {
        let (order, lock) = self.order(&request)?;
        let _visit = order.room.enter();
        let PlaceRequest { item, quantity } = request.into_inner();
        // A second lock, for a key from the message. Always in this order, orders before items, so
        // that no two calls wait for each other. Its errors are statuses, as the layer's are.
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
        let visit = order.room.enter();
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
        Self::failed_precondition("a call with a newer lock has written already")
    }
}
