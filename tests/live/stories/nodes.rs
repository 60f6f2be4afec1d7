//! The nodes of a story: real servers, or five inside this process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tower_redlock::{
    Redlock, RedlockBuilder,
    node::{EmbeddedNodes, NodeHealth},
};

use crate::support::{
    RedisServer, eventually_async,
    mock_node::{MockNode, with_nodes},
};

/// Also `max_ttl`: how long the servers are in probation at first.
const TTL: Duration = Duration::from_secs(2);
const READY_WITHIN: Duration = Duration::from_secs(60);

pub(crate) enum Nodes {
    Embedded(EmbeddedNodes),
    Servers(Vec<RedisServer>),
}

impl Nodes {
    pub(crate) fn embedded() -> Self {
        Self::Embedded(EmbeddedNodes::new(5))
    }

    /// Three servers, of which a quorum votes.
    pub(crate) async fn servers() -> Self {
        let nodes = Self::Servers(RedisServer::start_n(3));
        let redlock = nodes.builder().build().unwrap();
        redlock.ready_within(READY_WITHIN).await.unwrap();
        nodes
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        match self {
            Self::Embedded(_) => Vec::new(),
            Self::Servers(servers) => servers.iter().map(RedisServer::url).collect(),
        }
    }

    pub(crate) fn builder(&self) -> RedlockBuilder {
        match self {
            Self::Embedded(nodes) => Redlock::builder().nodes_from(nodes).ttl(TTL),
            Self::Servers(_) => over(self.urls()),
        }
    }

    /// A manager whose quorum votes.
    pub(crate) async fn manager(&self, owner: &str) -> Redlock {
        let redlock = self.builder().owner(owner).build().unwrap();
        redlock.ready_within(READY_WITHIN).await.unwrap();
        redlock
    }

    /// Waits until no lock key is left: each was released, or has expired after its holder was
    /// killed.
    pub(crate) async fn no_lock_is_left(&self) {
        eventually_async("no lock is left", async || match self {
            Self::Embedded(nodes) => nodes.key_counts().iter().all(|count| *count == 0),
            Self::Servers(servers) => {
                servers.iter().all(|server| server.keys("*:lock:*").is_empty())
            }
        })
        .await;
    }
}

pub(crate) fn over(urls: impl IntoIterator<Item = String>) -> RedlockBuilder {
    Redlock::builder().nodes(urls).ttl(TTL)
}

/// The number of releases that voting nodes have still to acknowledge.
pub(crate) fn pending_releases(managers: &[Redlock]) -> usize {
    let health = managers.iter().flat_map(Redlock::health).filter(NodeHealth::is_voting);
    health.map(|node| node.unacknowledged).sum()
}

/// The connections between one member and the embedded nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    is_cut: Arc<AtomicBool>,
}

impl Link {
    /// The nodes receive nothing from now on, as from a process that was killed.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    pub(crate) fn builder(&self, nodes: &EmbeddedNodes) -> RedlockBuilder {
        let linked = nodes.nodes("redlock").map(|node| {
            let is_cut = Arc::clone(&self.is_cut);
            // A reply that is dropped never comes.
            MockNode::over(&node, move |op, reply, node| {
                if !is_cut.load(Ordering::SeqCst) {
                    node.send(op, reply);
                }
            })
        });
        with_nodes(Redlock::builder().ttl(TTL), linked)
    }
}
