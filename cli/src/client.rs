//! The client that a command works with: its settings, its manager, and the form of its output.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use tower_redlock::{
    Redlock,
    error::Reason,
    node::{NodeHealth, NodeState},
};

use crate::{
    exit::Failure,
    options::SharedArgs,
    output::{Output, say, shown},
    settings::Settings,
};

/// Limit for the first connections. A server that has not greeted after 2 s is down.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(3500);
/// Time that connecting may take without a line.
const SILENT_TIME: Duration = Duration::from_millis(500);
/// Minimum time for the other nodes once a quorum votes.
const MIN_STRAGGLER_TIME: Duration = Duration::from_millis(100);
/// Interval between checks of the first connections.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

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
        tell_long(&client.redlock, settle(&client.redlock)).await;
        Ok(client)
    }

    /// Builds a manager, and waits until [enough](settle_enough) of its nodes have settled, for a command that
    /// only reads. Says which nodes are left out.
    pub(crate) async fn reading(shared: &SharedArgs) -> Result<Self, Failure> {
        let client = Self::new(shared)?;
        client.connected().await;
        if let Some(missing) = unsettled(&client.redlock) {
            say(&format!("redlock: {missing} has not answered yet, and is left out"));
        }
        Ok(client)
    }

    /// Waits until [enough](settle_enough) of the nodes have settled.
    pub(crate) async fn connected(&self) {
        tell_long(&self.redlock, settle_enough(&self.redlock)).await;
    }
}

/// Waits for connections. Says which ones, if that takes long.
async fn tell_long(redlock: &Redlock, settled: impl Future<Output = ()>) {
    let mut settled = pin!(settled);
    tokio::select! {
        biased;
        () = &mut settled => {}
        () = tokio::time::sleep(SILENT_TIME) => {
            if let Some(missing) = unsettled(redlock) {
                say(&format!("redlock: waiting for {missing}"));
            }
            settled.await;
        }
    }
}

/// Returns the names of the nodes that have not settled; `None` without one.
fn unsettled(redlock: &Redlock) -> Option<String> {
    let health = redlock.health();
    let names = health.iter().filter(|node| is_passing(node)).map(|node| shown(&node.name));
    let names = names.collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then_some(names)
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
    while begun.elapsed() < CONNECT_TIMEOUT && redlock.health().iter().any(is_passing) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits as [`settle`] does, but once a quorum of each set votes, at most as long again for the other nodes: a
/// server that hangs does not delay what the others say.
async fn settle_enough(redlock: &Redlock) {
    let begun = Instant::now();
    let sets = sets(redlock);
    let mut limit = CONNECT_TIMEOUT;
    loop {
        let health = redlock.health();
        let elapsed = begun.elapsed();
        if limit == CONNECT_TIMEOUT && has_votes(&health, &sets, quorum) {
            limit = CONNECT_TIMEOUT.min(elapsed * 2 + MIN_STRAGGLER_TIME);
        }
        if elapsed >= limit || !health.iter().any(is_passing) {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns whether the state of a node ends by itself within a second or two.
fn is_passing(node: &NodeHealth) -> bool {
    match &node.state {
        NodeState::Connecting => true,
        // The end of a probation takes one more round trip.
        NodeState::Probation { remaining, .. } => remaining.is_zero(),
        NodeState::Refusing { reason, .. } => {
            matches!(reason, Reason::WrongTag { .. } | Reason::TtlTooLong)
        }
        _ => false,
    }
}
