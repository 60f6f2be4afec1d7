//! A service whose methods follow the request's `item`, and write a log.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::{Semaphore, mpsc};
use tonic::{Code, Request, Response, Status, metadata::MetadataMap};
use tower_redlock::{LockContext, LockContexts};

use self::generated::{Event, PlaceRequest, Receipt, TrackRequest, orders_server};
use crate::grpc::log::{Events, Inside, Log, Sent};

pub(crate) mod generated {
    #![allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, reason = "generated")]
    include!("../../../examples/proto/orders.v1.rs");
}

#[derive(Clone, Debug)]
pub(crate) struct Orders {
    log: Arc<Mutex<Log>>,
    /// Has a permit for each "stuck" method that may continue.
    gate: Arc<Semaphore>,
    streams: Arc<Mutex<HashMap<String, mpsc::Receiver<Sent>>>>,
}

impl Default for Orders {
    fn default() -> Self {
        let gate = Arc::new(Semaphore::new(0));
        Self { log: Arc::default(), gate, streams: Arc::default() }
    }
}

impl Orders {
    pub(crate) fn entered(&self) -> usize {
        self.log.lock().unwrap().entered
    }

    pub(crate) fn left(&self) -> usize {
        self.log.lock().unwrap().left
    }

    pub(crate) fn overlaps(&self) -> usize {
        self.log.lock().unwrap().overlaps
    }

    /// Lets one "stuck" method continue.
    pub(crate) fn let_go(&self) {
        self.gate.add_permits(1);
    }

    /// What the last method found in its request.
    pub(crate) fn context(&self) -> Option<LockContext> {
        self.log.lock().unwrap().context.clone()
    }

    /// The contexts of all layers.
    pub(crate) fn contexts(&self) -> Option<LockContexts> {
        self.log.lock().unwrap().contexts.clone()
    }

    pub(crate) fn metadata(&self, name: &str) -> Option<String> {
        let log = self.log.lock().unwrap();
        log.metadata.get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    /// Sets the events of the next `track` of this order. The sender detects when it is dropped.
    pub(crate) fn stream(&self, order: &str) -> mpsc::Sender<Sent> {
        let (sender, receiver) = mpsc::channel(8);
        self.streams.lock().unwrap().insert(order.to_owned(), receiver);
        sender
    }
}

/// The status of a method that fails without the layer.
pub(crate) fn own_failure() -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert("shelf", "7".parse().unwrap());
    let details = b"sold".as_slice().into();
    Status::with_details_and_metadata(Code::FailedPrecondition, "sold out", details, metadata)
}

#[tonic::async_trait]
impl orders_server::Orders for Orders {
    type TrackStream = Events;

    async fn place(&self, request: Request<PlaceRequest>) -> Result<Response<Receipt>, Status> {
        let _inside = Inside::enter(&self.log, &request);
        let token = self.context().map_or(0, |context| context.fencing_token().get());
        match request.into_inner().item.as_str() {
            "stuck" => self.gate.acquire().await.unwrap().forget(),
            "busy" => tokio::time::sleep(Duration::from_millis(2)).await,
            "failing" => return Err(own_failure()),
            "overrunning" => {
                let context = self.context().expect("runs under the lock");
                while context.ensure_valid().is_ok() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                return Err(own_failure());
            }
            "panicking" => panic!("as the test wants it"),
            item => {
                if let Some(code) = item.strip_prefix("code ") {
                    return Err(Status::new(Code::from_bytes(code.as_bytes()), "as asked for"));
                }
            }
        }
        Ok(Response::new(Receipt { lines: 1, token }))
    }

    /// Sends the events that the test prepared, or else a few events one after the other.
    async fn track(&self, request: Request<TrackRequest>) -> Result<Response<Events>, Status> {
        let inside = Inside::enter(&self.log, &request);
        let prepared = self.streams.lock().unwrap().remove(inside.order());
        let receiver = prepared.unwrap_or_else(|| {
            let (sender, receiver) = mpsc::channel(1);
            tokio::spawn(async move {
                for line in 1..=3 {
                    let _ = sender.send(Ok(Event { line, ..Event::default() })).await;
                }
            });
            receiver
        });
        Ok(Response::new(Events::new(receiver, inside)))
    }
}
