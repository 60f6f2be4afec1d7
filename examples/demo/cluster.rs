//! Three replicas of one service: a lock manager each, over the same nodes.

use std::error::Error;

use futures_util::future::{join_all, try_join_all};
use tower_redlock::{
    Redlock,
    node::{NodeHealth, NodeState},
};

use crate::nodes::Nodes;

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
            // The owner is stored with each key: whoever is turned away learns who holds it.
            replicas.push(Replica { name, redlock: nodes.builder().owner(name).build()? });
        }
        try_join_all(replicas.iter().map(|replica| replica.redlock.ready())).await?;
        Ok(Self { replicas, nodes })
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
        match &self.nodes {
            Nodes::Embedded(nodes) => Some(nodes.key_counts().iter().sum()),
            Nodes::Servers(_) => None,
        }
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
