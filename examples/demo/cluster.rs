//! Three replicas of one service: a lock manager each, over the same nodes.

use std::{error::Error, fmt::Write, time::Duration};

use futures_util::future::join_all;
use tower_redlock::{EmbeddedNodes, NodeHealth, NodeState, Redlock};

const NAMES: [&str; 3] = ["replica-a", "replica-b", "replica-c"];
/// Servers that are new to this set vote after 10 s: they might have forgotten locks.
const READY_WITHIN: Duration = Duration::from_secs(30);
const QUIET: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) struct Replica {
    pub(crate) name: &'static str,
    pub(crate) redlock: Redlock,
}

pub(crate) struct Cluster {
    pub(crate) replicas: Vec<Replica>,
    embedded: Option<EmbeddedNodes>,
}

impl Cluster {
    /// Builds the replicas, and waits until each has a quorum of nodes.
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
            // The owner is stored with each key: whoever is turned away learns who holds it.
            replicas.push(Replica { name, redlock: builder.owner(name).build()? });
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
        let ready = join_all(self.replicas.iter().map(|replica| replica.redlock.ready()));
        tokio::time::timeout(time, ready).await.is_ok()
    }

    fn not_ready(&self, what: &str) -> String {
        let mut text = format!("{what}; REDLOCK_NODES are:");
        for node in self.health() {
            let _ = write!(text, "\n  {}: {}", node.name, state(&node));
        }
        text
    }

    /// The nodes as the first replica sees them.
    pub(crate) fn health(&self) -> Vec<NodeHealth> {
        self.replicas[0].redlock.health()
    }

    /// Waits until the nodes know of every lock that was given back: after this no key is left.
    pub(crate) async fn shutdown(&self) {
        join_all(self.replicas.iter().map(|replica| replica.redlock.shutdown())).await;
    }

    /// How many keys are left on the nodes, if that can be told from here.
    pub(crate) fn keys_left(&self) -> Option<usize> {
        self.embedded.as_ref().map(|nodes| nodes.key_counts().iter().sum())
    }

    /// How many releases are still to be acknowledged by nodes that can be reached. What a node
    /// that is down has not heard of expires there with its TTL.
    pub(crate) fn pending_releases(&self) -> usize {
        let health = self.replicas.iter().flat_map(|replica| replica.redlock.health());
        health.filter(NodeHealth::is_voting).map(|node| node.pending_releases).sum()
    }
}

/// Whether a node votes, in words.
pub(crate) fn state(node: &NodeHealth) -> String {
    match &node.state {
        NodeState::Voting => match node.round_trip {
            Some(round_trip) => format!("votes ({round_trip:.0?})"),
            None => "votes".into(),
        },
        other => other.to_string(),
    }
}
