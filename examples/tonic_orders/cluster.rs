//! Three replicas of one service: a lock manager each, over the same nodes.

use std::error::Error;

use futures_util::future::join_all;
use tower_redlock::{Redlock, node::NodeHealth};

use crate::nodes::Nodes;

const NAMES: [&str; 3] = ["orders-a", "orders-b", "orders-c"];

pub(crate) struct Cluster {
    pub(crate) replicas: Vec<Redlock>,
    nodes: Nodes,
}

impl Cluster {
    /// Builds the managers, and waits until each has a quorum of nodes.
    pub(crate) async fn start() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let nodes = Nodes::from_env();
        nodes.wait_until_ready().await?;
        let mut replicas = Vec::new();
        for name in NAMES {
            replicas.push(nodes.builder().owner(name).build()?);
        }
        join_all(replicas.iter().map(Redlock::ready)).await;
        Ok(Self { replicas, nodes })
    }

    /// Waits until the nodes know of every lock that was given back: after this no key is left.
    pub(crate) async fn shutdown(&self) {
        join_all(self.replicas.iter().map(Redlock::shutdown)).await;
    }

    /// How many keys are left on the nodes, if that can be told from here.
    pub(crate) fn keys_left(&self) -> Option<usize> {
        match &self.nodes {
            Nodes::Embedded(nodes) => Some(nodes.key_counts().iter().sum()),
            Nodes::Servers(_) => None,
        }
    }

    /// How many releases nodes that vote have still to acknowledge.
    pub(crate) fn pending_releases(&self) -> usize {
        let health = self.replicas.iter().flat_map(Redlock::health);
        health.filter(NodeHealth::is_voting).map(|node| node.pending_releases).sum()
    }
}
