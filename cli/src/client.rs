//! The client that a command works with: its settings, its manager, and the form of its output.

use std::time::{Duration, Instant};

use tower_redlock::{
    Redlock,
    error::Reason,
    node::{NodeHealth, NodeState},
};

use crate::{exit::Failure, options::SharedArgs, output::Output, settings::Settings};

/// Limit for the first connections. A server that has not greeted after 2 s is down.
const LIMIT: Duration = Duration::from_millis(3500);
/// Interval between checks of the first connections.
const INTERVAL: Duration = Duration::from_millis(20);

/// What a command works with.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) settings: Settings,
    pub(crate) redlock: Redlock,
    pub(crate) output: Output,
}

impl Client {
    /// Builds a manager over the servers, which connects in the background.
    pub(crate) fn new(shared: &SharedArgs) -> Result<Self, Failure> {
        let settings = Settings::new(shared)?;
        let redlock = settings.build()?;
        Ok(Self { settings, redlock, output: Output { json: shared.json } })
    }

    /// Builds a manager, and waits until its nodes have [settled](settle).
    pub(crate) async fn settled(shared: &SharedArgs) -> Result<Self, Failure> {
        let client = Self::new(shared)?;
        settle(&client.redlock).await;
        Ok(client)
    }
}

pub(crate) fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Returns whether each set of nodes has this number of votes, of the number of its nodes.
pub(crate) fn has_votes(
    mut health: &[NodeHealth],
    sets: &[usize],
    needed: impl Fn(usize) -> usize,
) -> bool {
    sets.iter().all(|nodes| {
        let (set, others) = health.split_at(*nodes);
        health = others;
        voting(set) >= needed(*nodes)
    })
}

/// Returns the number of nodes of each set.
pub(crate) fn sets(redlock: &Redlock) -> Vec<usize> {
    redlock.sets().iter().map(|set| set.nodes().len()).collect()
}

/// Returns the health of the set of a node, and the position of the node there.
pub(crate) fn health_beside(redlock: &Redlock, mut node: usize) -> (Vec<NodeHealth>, usize) {
    for set in redlock.sets() {
        let nodes = set.nodes().len();
        if node < nodes {
            return (set.health(), node);
        }
        node -= nodes;
    }
    (redlock.health(), node)
}

pub(crate) fn voting(health: &[NodeHealth]) -> usize {
    health.iter().filter(|node| node.is_voting()).count()
}

/// Waits until every node is connected or known to be down, for a limited time.
pub(crate) async fn settle(redlock: &Redlock) {
    let begun = Instant::now();
    let is_passing = |node: &NodeHealth| match &node.state {
        NodeState::Connecting => true,
        // The end of a probation takes one more round trip.
        NodeState::Probation { remaining, .. } => remaining.is_zero(),
        NodeState::Refusing { reason, .. } => {
            matches!(reason, Reason::WrongTag { .. } | Reason::TtlTooLong)
        }
        _ => false,
    };
    while begun.elapsed() < LIMIT && redlock.health().iter().any(is_passing) {
        tokio::time::sleep(INTERVAL).await;
    }
}
