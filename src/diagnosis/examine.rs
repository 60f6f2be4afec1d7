//! Queries the nodes for a diagnosis.

use std::time::Duration;

use futures_util::future::join_all;

use super::{Diagnosis, NodeDiagnosis, terms::DiagnosisTerms};
use crate::{error::Reason, lock::Redlock, node::NodeState};

/// Interval between checks of the first connections.
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);
/// Number of test votes for a slow node, which may be busy only for a moment.
const TRIES: usize = 3;
/// Timeout for the check of a node's permissions.
const PERMISSIONS_LIMIT: Duration = Duration::from_secs(2);
/// Timeout for counting the lock keys of a node.
const COUNT_LIMIT: Duration = Duration::from_secs(8);

/// Waits for first connections for `connect_within`, requests test votes (`probe`), and counts keys (`counts`).
pub(super) async fn examine(
    redlock: &Redlock,
    probe: bool,
    counts: bool,
    connect_within: Duration,
) -> Diagnosis {
    let terms = DiagnosisTerms::of(redlock);
    settle(redlock, connect_within).await;
    let nodes = || 0..redlock.nodes().len();
    let votes = if probe {
        let votes = nodes().map(async |node| Some(test_vote(redlock, node, &terms).await));
        let votes = join_all(votes).await;
        join_all(nodes().map(|node| check_permissions(redlock, node))).await;
        votes
    } else {
        vec![None; nodes().len()]
    };
    let keys = if counts {
        // A node without its first connection is not waited for again.
        let health = redlock.health();
        let is_connected = |node: usize| !matches!(health[node].state, NodeState::Connecting);
        let count = async |node| {
            if is_connected(node) { Some(count_keys(redlock, node).await) } else { None }
        };
        join_all(nodes().map(count)).await
    } else {
        vec![None; nodes().len()]
    };
    // The health now includes the results of the votes and of the permission checks.
    let health = redlock.health().into_iter();
    let nodes = health
        .zip(keys)
        .zip(votes)
        .map(|((health, keys), vote)| NodeDiagnosis::new(health, keys, vote, &terms));
    Diagnosis::new(nodes.collect(), &terms)
}

/// Waits until every node is connected or known to be down, for a limited time.
async fn settle(redlock: &Redlock, limit: Duration) {
    let limit = redlock.now() + limit;
    while redlock.now() < limit && redlock.health().iter().any(|node| is_passing(&node.state)) {
        redlock.sleep(SETTLE_INTERVAL).await;
    }
}

/// Returns whether the state ends by itself within a second or two.
fn is_passing(state: &NodeState) -> bool {
    match state {
        NodeState::Connecting => true,
        // The end of a probation takes one more round trip.
        NodeState::Probation { remaining, .. } => remaining.is_zero(),
        NodeState::Refusing { reason, .. } => {
            matches!(reason, Reason::WrongTag { .. } | Reason::TtlTooLong)
        }
        NodeState::Voting | NodeState::Down { .. } => false,
    }
}

/// Returns the time of the fastest of a few votes.
async fn test_vote(
    redlock: &Redlock,
    node: usize,
    terms: &DiagnosisTerms,
) -> Result<Duration, Reason> {
    let mut fastest = redlock.test_vote(node).await?;
    for _ in 1..TRIES {
        if fastest < terms.node_timeout {
            break;
        }
        fastest = fastest.min(redlock.test_vote(node).await?);
    }
    Ok(fastest)
}

async fn check_permissions(redlock: &Redlock, node: usize) {
    tokio::select! {
        biased;
        () = redlock.check_permissions(node) => {}
        () = redlock.sleep(PERMISSIONS_LIMIT) => {}
    }
}

async fn count_keys(redlock: &Redlock, node: usize) -> Result<u64, Reason> {
    tokio::select! {
        biased;
        count = redlock.key_count(node) => count,
        () = redlock.sleep(COUNT_LIMIT) => Err(Reason::TimedOut),
    }
}
