//! Three replicas of one service, each with a lock manager of its own over the same nodes: real
//! servers, or five nodes inside this process.

use std::{error::Error, time::Duration};

use futures_util::future::{join_all, try_join_all};
use tower_redlock::{
    Redlock, RedlockBuilder,
    node::{EmbeddedNodes, NodeHealth, NodeState},
};

/// Servers that are new to this set vote after 10 s, as they may have forgotten locks; after 33 s if they
/// belonged to another set, which no client uses any more.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Time without progress after which the demo prints what it waits for.
const QUIET: Duration = Duration::from_secs(1);

const NAMES: [&str; 3] = ["replica-a", "replica-b", "replica-c"];

#[derive(Clone)]
pub(crate) struct Replica {
    pub(crate) name: &'static str,
    pub(crate) redlock: Redlock,
}

pub(crate) struct Cluster {
    pub(crate) replicas: Vec<Replica>,
    nodes: Nodes,
}

impl Cluster {
    /// Builds the replicas, and waits until each has a quorum of nodes.
    pub(crate) async fn start() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let nodes = Nodes::from_env();
        nodes.wait_until_ready().await?;
        let mut replicas = Vec::new();
        for name in NAMES {
            // Stored with each key, so that errors can name the holder.
            replicas.push(Replica { name, redlock: nodes.builder().owner(name).build()? });
        }
        try_join_all(replicas.iter().map(|replica| replica.redlock.ready())).await?;
        Ok(Self { replicas, nodes })
    }

    /// The nodes as the first replica sees them.
    pub(crate) fn health(&self) -> Vec<NodeHealth> {
        self.replicas[0].redlock.health()
    }

    /// Waits until the nodes have acknowledged every release. No key is left after this.
    pub(crate) async fn shutdown(&self) {
        join_all(self.replicas.iter().map(|replica| replica.redlock.shutdown())).await;
    }

    /// The number of keys on the nodes; `None` for servers, which may keep others.
    pub(crate) fn keys_left(&self) -> Option<usize> {
        match &self.nodes {
            Nodes::Embedded(nodes) => Some(nodes.key_counts().iter().sum()),
            Nodes::Servers(_) => None,
        }
    }

    /// Returns the number of releases that voting nodes have not acknowledged yet. On a node that
    /// is down the keys expire with their TTL.
    pub(crate) fn pending_releases(&self) -> usize {
        let health = self.replicas.iter().flat_map(|replica| replica.redlock.health());
        health.filter(NodeHealth::is_voting).map(|node| node.unacknowledged).sum()
    }
}

/// Describes whether a node votes.
pub(crate) fn state(node: &NodeHealth) -> String {
    match &node.state {
        NodeState::Voting => match node.round_trip {
            Some(round_trip) => format!("votes ({round_trip:.0?})"),
            None => "votes".into(),
        },
        other => other.to_string(),
    }
}

enum Nodes {
    Embedded(EmbeddedNodes),
    Servers(Vec<String>),
}

impl Nodes {
    fn from_env() -> Self {
        let given = std::env::var("REDLOCK_NODES").unwrap_or_default();
        let urls = given.split(',').map(str::trim).filter(|url| !url.is_empty());
        let urls: Vec<_> = urls.map(ToOwned::to_owned).collect();
        if urls.is_empty() { Self::Embedded(EmbeddedNodes::new(5)) } else { Self::Servers(urls) }
    }

    fn builder(&self) -> RedlockBuilder {
        match self {
            Self::Embedded(nodes) => Redlock::builder().nodes_from(nodes),
            Self::Servers(urls) => Redlock::builder().nodes(urls),
        }
    }

    /// Waits until a quorum votes.
    async fn wait_until_ready(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let redlock = self.builder().build()?;
        if let Err(why) = redlock.ready_within(QUIET).await {
            println!("waiting: {why}");
            redlock.ready_within(READY_WITHIN).await?;
        }
        Ok(())
    }
}
