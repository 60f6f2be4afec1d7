//! The nodes of a test, and what can go wrong with them.

use std::sync::Arc;

use super::{clock::ManualClock, probation::Probations, replica::Replica, sim_server::SimServer};

/// Embedded nodes that fail on demand.
///
/// Managers see them through [replicas](Self::replica), each of which can be cut off by itself.
/// Nodes are counted from zero; several are named at once by any iterator, as in
/// `nodes.stop(0..3)`. Clones are the same nodes.
///
/// | the node is | operations | [health](crate::Redlock::health) |
/// |---|---|---|
/// | running | answered at once | voting |
/// | [stopped](Self::stop) | refused at once, `NotConnected` | down: `NotConnected` |
/// | [frozen](Self::freeze) | queued without an answer | down: `TimedOut` |
/// | [cut off](Replica::partition) | refused at once, `NotConnected` | down: `NotConnected` |
/// | [fresh](Self::fresh), or [forgot](Self::forget) | votes and renewals refused, `Probation` | in probation |
///
/// The nodes read time from the clock's first view, so a replica with another
/// [view](Replica::with_clock) is one whose machine's clock is off.
///
/// # Probations
///
/// [`new`](Self::new) creates nodes in service, with nothing stored: they vote at once. Servers that
/// are [fresh](Self::fresh) or [forgot](Self::forget) may have granted locks which they don't know of,
/// and vote only when these have expired: after the maximum TTL requested (10 s, the default TTL, if
/// none was longer) and its drift, so 10.102 s. Then they learn from the others, or begin anew if too
/// few others vote: ticks of jobs up to then count as started.
///
/// Use fresh nodes to test the first start of a service: a job
/// [`every_after`](crate::Schedule::every_after) runs when their probation is over, not at once.
///
/// ```
/// use std::{future::IntoFuture, time::Duration};
/// use tower_redlock::{error::{Reason, VoteOutcome}, testing::{ManualClock, Nodes}, LockError};
///
/// let clock = ManualClock::new();
/// let nodes = Nodes::new(3, &clock);
/// let redlock = nodes.replica("blue").redlock();
/// nodes.freeze([0, 2]);
/// let mut request = clock.spawn(redlock.lock("report").into_future());
/// // The default node timeout.
/// clock.advance(Duration::from_millis(50));
/// let Some(Err(LockError::NoQuorum { votes })) = request.take() else { panic!() };
/// assert_eq!(votes[2].outcome, VoteOutcome::NotCounted(Reason::TimedOut));
/// // The request reaches the nodes in the end, and its release behind it.
/// nodes.thaw([0, 2]);
/// assert_eq!(nodes.key_counts(), [0, 0, 0]);
/// ```
#[derive(Clone, Debug)]
pub struct Nodes {
    servers: Arc<[Arc<SimServer>]>,
    clock: ManualClock,
}

impl Nodes {
    /// `count` nodes that vote and store nothing, named `node-0`, `node-1` and so on, with the time of
    /// `clock`.
    pub fn new(count: usize, clock: &ManualClock) -> Self {
        let probations = Arc::new(Probations::new());
        let server = |i| Arc::new(SimServer::new(format!("node-{i}"), clock, &probations));
        let servers: Arc<[_]> = (0..count).map(server).collect();
        probations.of(&servers);
        Self { servers, clock: clock.clone() }
    }

    /// `count` nodes that no client has used before: they begin with a [probation](Self#probations).
    pub fn fresh(count: usize, clock: &ManualClock) -> Self {
        let nodes = Self::new(count, clock);
        nodes.forget(0..count);
        nodes
    }

    /// The nodes as one more manager sees them, connected to all. `owner` is its
    /// [name](crate::RedlockBuilder::owner).
    pub fn replica(&self, owner: impl Into<String>) -> Replica {
        Replica::new(owner.into(), &self.servers, self.clock.clone())
    }

    /// Stops nodes: they refuse everything at once, as a server whose process ended. They keep their
    /// keys, whose TTLs run on; operations queued on a frozen node are lost.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn stop(&self, nodes: impl IntoIterator<Item = usize>) {
        self.each(nodes, |server| server.stop());
    }

    /// Starts nodes that were stopped, with the keys that they had. No effect on others.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn start(&self, nodes: impl IntoIterator<Item = usize>) {
        self.each(nodes, SimServer::start);
    }

    /// Freezes nodes: they queue operations and answer none, as a server whose process is suspended.
    /// Clients stop waiting after the node timeout, and close the connection after a second. No effect
    /// on nodes that are stopped.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn freeze(&self, nodes: impl IntoIterator<Item = usize>) {
        self.each(nodes, |server| server.freeze());
    }

    /// Thaws frozen nodes: their queued operations run in order before this returns. As on a server,
    /// a grant or a claim of a tick is refused two node timeouts after it was sent. No effect on
    /// others.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn thaw(&self, nodes: impl IntoIterator<Item = usize>) {
        self.each(nodes, SimServer::thaw);
    }

    /// Deletes all keys, fences, records and claims of ticks of nodes, as a restart does without
    /// persistence. They begin a [probation](Self#probations); if they are stopped or frozen, it counts
    /// from when they run again.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn forget(&self, nodes: impl IntoIterator<Item = usize>) {
        self.each(nodes, SimServer::forget);
    }

    /// The same without a probation, as servers under
    /// [`RestartGuard::Off`](crate::node::redis::RestartGuard::Off): with too many of them, two managers hold the
    /// same lock, fencing tokens may repeat, and a tick may start twice.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn forget_unguarded(&self, nodes: impl IntoIterator<Item = usize>) {
        self.each(nodes, |server| server.forget_unguarded());
    }

    /// Number of keys that each node stores, expired ones not counted.
    pub fn key_counts(&self) -> Vec<usize> {
        self.servers.iter().map(|server| server.key_count()).collect()
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there are none; no manager can be built over such a set.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    #[track_caller]
    fn each(&self, nodes: impl IntoIterator<Item = usize>, what: impl Fn(&Arc<SimServer>)) {
        for node in nodes {
            what(&self.servers[node]);
        }
    }
}
