//! The node under test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tower_redlock::node::{Hint, Hints, LeaseId, Node, Nonce, Subscription};
use tower_redlock::{Redlock, Resource, node::EmbeddedNodes};

use crate::fixture::{RedisServer, eventually_async, over};

use super::Contender;
use super::contender::TTL;

/// One node, with the manager and the server that it needs.
pub(super) struct Subject {
    node: Arc<dyn Node>,
    /// The manager first: its connection must be gone before the server is.
    _manager: Option<Redlock>,
    server: Option<RedisServer>,
}

/// The hints that arrive on a channel, the first of which is [`Hint::Listening`].
pub(super) type Received = Arc<Mutex<Vec<Hint>>>;

impl Subject {
    pub(super) fn embedded() -> Self {
        let node = EmbeddedNodes::new(1).nodes("redlock").next().expect("a set of one");
        Self { node, _manager: None, server: None }
    }

    /// A Redis node with a server of its own.
    pub(super) async fn server() -> Self {
        let server = RedisServer::start();
        // A long timeout for each answer: no connection is closed on a busy machine.
        let builder = over(Redlock::builder(), [server.url()]).ttl(TTL).node_timeout(TTL / 30);
        let manager = builder.build().expect("valid settings");
        manager.ready().await.unwrap();
        let node = manager.nodes()[0].clone();
        Self { node, _manager: Some(manager), server: Some(server) }
    }

    pub(super) fn node(&self) -> &Arc<dyn Node> {
        &self.node
    }

    /// Only for cases about the keys on a server.
    pub(super) fn redis(&self) -> &RedisServer {
        self.server.as_ref().expect("a subject with a server")
    }

    /// Subscribes to a channel, and waits until it listens.
    pub(super) async fn subscribe(&self, channel: &str) -> (Received, Subscription) {
        let received = Received::default();
        let sink = Arc::clone(&received);
        let hints = Hints::from_fn(move |hint| sink.lock().unwrap().push(hint));
        let subscription = self.node.subscribe(&channel.into(), hints);
        eventually_async("it listens", async || received.lock().unwrap().len() == 1).await;
        (received, subscription)
    }

    /// A contender for the resource, with a new lease.
    pub(super) fn contender(&self, resource: impl Names) -> Contender {
        self.contender_named("someone", resource)
    }

    pub(super) fn contender_named(&self, owner: &str, resource: impl Names) -> Contender {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let nonce = Nonce::from_bytes(number.to_be_bytes());
        let since = Duration::from_secs(1_700_000_000);
        Contender::new(
            self.node.clone(),
            Arc::new(LeaseId::new(resource.resource(), nonce, owner.into(), since)),
        )
    }
}

/// Values that a case may pass as a resource.
pub(super) trait Names {
    fn resource(self) -> Resource;
}

impl Names for &str {
    fn resource(self) -> Resource {
        Resource::try_from(self).expect("a valid name")
    }
}

impl Names for Resource {
    fn resource(self) -> Resource {
        self
    }
}

impl<const N: usize> Names for [&str; N] {
    fn resource(self) -> Resource {
        Resource::new(self).expect("valid names")
    }
}

impl Names for Vec<String> {
    fn resource(self) -> Resource {
        Resource::new(self).expect("valid names")
    }
}
