//! Three replicas of one service: a lock manager each, over the same nodes.

use std::{error::Error, fmt::Write, time::Duration};

use futures_util::future::join_all;
use tower_redlock::{EmbeddedNodes, NodeHealth, Redlock};

const NAMES: [&str; 3] = ["orders-a", "orders-b", "orders-c"];
/// Servers that are new to this set vote after 10 s: they might have forgotten locks.
const READY_WITHIN: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(1);

pub(crate) struct Cluster {
    pub(crate) replicas: Vec<Redlock>,
    embedded: Option<EmbeddedNodes>,
}

impl Cluster {
    /// Builds the managers, and waits until each has a quorum of nodes.
    pub(crate) async fn start() -> Result<Self, Box<dyn Error>> {
        let given = std::env::var("REDLOCK_NODES").unwrap_or_default();
        let urls: Vec<&str> =
            given.split(',').map(str::trim).filter(|url| !url.is_empty()).collect();
        let embedded = urls.is_empty().then(|| EmbeddedNodes::new(5));
        let mut replicas = Vec::new();
        for name in NAMES {
            let builder = match &embedded {
                Some(nodes) => Redlock::builder().nodes_from(nodes),
                None => Redlock::builder().nodes(urls.iter().copied()),
            };
            replicas.push(builder.owner(name).build()?);
        }
        let cluster = Self { replicas, embedded };
        if !cluster.is_ready_within(QUIET).await {
            println!("{}", cluster.not_ready("waiting for a quorum of nodes"));
            if !cluster.is_ready_within(READY_WITHIN).await {
                let what = format!("no quorum of nodes within {READY_WITHIN:?}");
                return Err(cluster.not_ready(&what).into());
            }
        }
        Ok(cluster)
    }

    async fn is_ready_within(&self, time: Duration) -> bool {
        let ready = join_all(self.replicas.iter().map(Redlock::ready));
        tokio::time::timeout(time, ready).await.is_ok()
    }

    fn not_ready(&self, what: &str) -> String {
        let mut text = format!("{what}; REDLOCK_NODES are:");
        for node in self.replicas[0].health() {
            let _ = write!(text, "\n  {}: {}", node.name, node.state);
        }
        text
    }

    /// Waits until the nodes know of every lock that was given back: after this no key is left.
    pub(crate) async fn shutdown(&self) {
        join_all(self.replicas.iter().map(Redlock::shutdown)).await;
    }

    /// How many keys are left on the nodes, if that can be told from here.
    pub(crate) fn keys_left(&self) -> Option<usize> {
        self.embedded.as_ref().map(|nodes| nodes.key_counts().iter().sum())
    }

    /// How many releases nodes that vote have still to acknowledge.
    pub(crate) fn pending_releases(&self) -> usize {
        let health = self.replicas.iter().flat_map(Redlock::health);
        health.filter(NodeHealth::is_voting).map(|node| node.pending_releases).sum()
    }
}
