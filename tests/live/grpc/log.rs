//! The log of the methods: which calls run for which order, and their requests.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Status, metadata::MetadataMap};
use tower_redlock::{LockContext, LockContexts};

use crate::grpc::orders::generated::Event;

/// The script of a stream.
pub(crate) type Sent = Result<Event, Status>;

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) entered: usize,
    /// Number of methods and streams that have ended or were dropped.
    pub(crate) left: usize,
    /// Number of methods that began while another one was running for the same order.
    pub(crate) overlaps: usize,
    /// The context of the last request.
    pub(crate) context: Option<LockContext>,
    pub(crate) contexts: Option<LockContexts>,
    pub(crate) metadata: MetadataMap,
    inside: HashMap<String, usize>,
}

/// In a method or a stream, until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside {
    log: Arc<Mutex<Log>>,
    order: String,
}

impl Inside {
    pub(crate) fn enter<T>(log: &Arc<Mutex<Log>>, request: &Request<T>) -> Self {
        let order = request.metadata().get("order-id").map_or("", |order| order.to_str().unwrap());
        let mut now = log.lock().unwrap();
        now.entered += 1;
        now.context = request.extensions().get().cloned();
        now.contexts = request.extensions().get().cloned();
        now.metadata = request.metadata().clone();
        let inside = now.inside.entry(order.to_owned()).or_default();
        *inside += 1;
        let overlaps = usize::from(*inside > 1);
        now.overlaps += overlaps;
        Self { log: Arc::clone(log), order: order.to_owned() }
    }

    pub(crate) fn order(&self) -> &str {
        &self.order
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut log = self.log.lock().unwrap();
        log.left += 1;
        *log.inside.get_mut(&self.order).unwrap() -= 1;
    }
}

/// The events of a stream, and its entry in the log, which ends with it.
#[derive(Debug)]
pub(crate) struct Events {
    stream: ReceiverStream<Sent>,
    inside: Option<Inside>,
}

impl Events {
    pub(crate) fn new(receiver: mpsc::Receiver<Sent>, inside: Inside) -> Self {
        Self { stream: ReceiverStream::new(receiver), inside: Some(inside) }
    }
}

impl Stream for Events {
    type Item = Sent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(Pin::new(&mut self.stream).poll_next(cx));
        if next.is_none() {
            self.inside = None;
        }
        Poll::Ready(next)
    }
}
