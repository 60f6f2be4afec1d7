//! The first connections to the nodes.

use std::time::{Duration, Instant};

use tower_redlock::{
    Redlock,
    error::Reason,
    node::{NodeHealth, NodeState},
};

/// Limit for the first connections. A server that has not greeted after 2 s is down.
const LIMIT: Duration = Duration::from_millis(3500);
const INTERVAL: Duration = Duration::from_millis(20);

pub(crate) fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
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
