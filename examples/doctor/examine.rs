//! The state of each node, and whether it votes.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures_util::future::join_all;
use tokio::{sync::oneshot, time::timeout};
use tower_redlock::{
    Redlock, Resource,
    error::Reason,
    node::{AcquireOp, Answer, LeaseId, Node, NodeHealth, NodeState, Nonce, Op, Reply},
    time::{Clock, SystemClock, Timestamp},
};

use crate::setup::Settings;

/// Limit for the first connections. A server that has not greeted after 2 s is down.
const SETTLE: Duration = Duration::from_millis(3500);
/// Number of votes requested from a node that is slow: it may be busy for a moment.
const TRIES: usize = 3;
/// Timeout for a vote. Far longer than the node timeout, to distinguish slow from silent nodes.
const PROBE: Duration = Duration::from_secs(2);
const COUNT: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(20);

/// The state of one node.
pub(crate) struct Seen {
    pub(crate) health: NodeHealth,
    /// The number of lock keys on the node.
    pub(crate) keys: Result<u64, Reason>,
    /// How long its vote took, or why it did not vote. `None` without a probe.
    pub(crate) vote: Option<Result<Duration, Reason>>,
}

impl Seen {
    /// Whether it votes, and in time where it was probed.
    pub(crate) fn votes(&self, settings: &Settings) -> bool {
        let in_time = match &self.vote {
            Some(Ok(took)) => *took < settings.node_timeout,
            Some(Err(_)) => false,
            None => true,
        };
        self.health.is_voting() && in_time
    }
}

pub(crate) fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

pub(crate) async fn examine(redlock: &Redlock, settings: &Settings, probe: bool) -> Vec<Seen> {
    settle(redlock).await;
    let votes = if probe { probe_all(redlock, settings).await } else { Vec::new() };
    let nodes = redlock.nodes().len();
    let counts = match timeout(COUNT, redlock.key_counts()).await {
        Ok(counts) => counts,
        Err(_) => vec![Err(Reason::TimedOut); nodes],
    };
    // The health includes by now what the votes revealed.
    let mut votes = votes.into_iter();
    let seen = redlock.health().into_iter().zip(counts);
    seen.map(|(health, keys)| Seen { health, keys, vote: votes.next() }).collect()
}

/// Waits until every node is connected or known to be down, for a limited time.
pub(crate) async fn settle(redlock: &Redlock) {
    let begun = Instant::now();
    while begun.elapsed() < SETTLE && redlock.health().iter().any(|node| is_passing(&node.state)) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether the state ends by itself within a second or two.
fn is_passing(state: &NodeState) -> bool {
    match state {
        NodeState::Connecting => true,
        // The end of a probation takes one more round trip.
        NodeState::Probation { remaining, .. } => remaining.is_zero(),
        NodeState::Refusing { reason, .. } => {
            matches!(reason, Reason::WrongTag { .. } | Reason::TtlTooLong)
        }
        _ => false,
    }
}

/// Acquires and releases a name of its own on every node: the state of a node does not show whether
/// the credentials may write lock keys, for example.
async fn probe_all(redlock: &Redlock, settings: &Settings) -> Vec<Result<Duration, Reason>> {
    join_all(redlock.nodes().iter().map(|node| probe(&**node, settings))).await
}

async fn probe(node: &dyn Node, settings: &Settings) -> Result<Duration, Reason> {
    let mut best = vote(node, settings).await?;
    for _ in 1..TRIES {
        if best < settings.node_timeout {
            break;
        }
        best = best.min(vote(node, settings).await?);
    }
    Ok(best)
}

/// Measures how long a vote takes.
async fn vote(node: &dyn Node, settings: &Settings) -> Result<Duration, Reason> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| Reason::Unknown)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let name = format!("doctor-probe-{}-{}", std::process::id(), now.as_nanos());
    let resource = Resource::try_from(name).map_err(|_| Reason::Unknown)?;
    let lease = Arc::new(LeaseId::new(resource, Nonce::from_bytes(bytes), "doctor".into(), now));
    // As clients do: nodes refuse a token that is far ahead of their clocks.
    let wall = node.wall(SystemClock::new().now(), now).unwrap_or(now);
    let token = u64::try_from(wall.as_micros()).unwrap_or(0);
    let acquire = Op::Acquire(
        AcquireOp::new(
            Arc::clone(&lease),
            settings.ttl.min(Duration::from_secs(1)),
            Timestamp::MAX,
            PROBE,
        )
        .fencing(token, token),
    );
    let begun = Instant::now();
    let granted = ask(node, acquire).await;
    let took = begun.elapsed();
    // After the acquire on the same connection, whatever its outcome.
    let released = ask(node, Op::Release(lease)).await;
    match granted? {
        Answer::Granted(_) => released.map(|_| took),
        _ => Err(Reason::Protocol("a key with a new name is held".into())),
    }
}

async fn ask(node: &dyn Node, op: Op) -> Result<Answer, Reason> {
    let (sender, receiver) = oneshot::channel();
    // After the timeout nobody receives it.
    node.send(op, Reply::from_fn(move |answer| drop(sender.send(answer))));
    match timeout(PROBE, receiver).await {
        Ok(answer) => answer.unwrap_or(Err(Reason::Unknown)),
        Err(_) => Err(Reason::TimedOut),
    }
}
