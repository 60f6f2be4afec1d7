//! The nodes of a test, and their failures.

use std::sync::Arc;

use super::{
    clock::ManualClock, node_indices::NodeIndices, probation::Probations, replica::Replica,
    sim_server::SimServer,
};

/// Embedded nodes that fail on demand.
///
/// Managers use them through [replicas](Self::replica), each of which can be cut off separately.
/// Nodes are counted from zero. Functions take one node or several: `nodes.stop(0)`,
/// `nodes.stop([0, 2])`, `nodes.stop(0..3)`. Clones are the same nodes.
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
/// [view](Replica::with_clock) is on a machine whose clock is off.
///
/// # Probations
///
/// [`new`](Self::new) creates nodes in service, with nothing stored: they vote at once. Servers
/// that are [fresh](Self::fresh) or [forgot](Self::forget) may have granted locks that they no
/// longer know of, and vote only when these have expired: after the maximum TTL requested (10 s,
/// the default TTL, if none was longer) and its drift, so 10.102 s. Then they learn from the other
/// nodes. If too few others vote, they start with an empty state, and ticks of jobs up to then
/// count as started.
///
/// Use fresh nodes to test the first start of a service: a job with
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
/// // The request reaches the nodes in the end, followed by its release.
/// nodes.thaw([0, 2]);
/// assert_eq!(nodes.key_counts(), [0, 0, 0]);
/// ```
#[derive(Clone, Debug)]
pub struct Nodes {
    servers: Arc<[Arc<SimServer>]>,
    clock: ManualClock,
}

impl Nodes {
    /// Creates `count` nodes that vote and store nothing, named `node-0`, `node-1` and so on, with
    /// the time of `clock`.
    pub fn new(count: usize, clock: &ManualClock) -> Self {
        let probations = Arc::new(Probations::new());
        let server = |i| Arc::new(SimServer::new(format!("node-{i}"), clock, &probations));
        let servers: Arc<[_]> = (0..count).map(server).collect();
        probations.of(servers.iter().map(|server| server.shared_state()));
        Self { servers, clock: clock.clone() }
    }

    /// Creates `count` nodes that no client has used before: they begin with a
    /// [probation](Self#probations).
    pub fn fresh(count: usize, clock: &ManualClock) -> Self {
        let nodes = Self::new(count, clock);
        nodes.forget(0..count);
        nodes
    }

    /// Returns the nodes for another manager, connected to all of them. `owner` is its
    /// [name](crate::RedlockBuilder::owner).
    pub fn replica(&self, owner: impl Into<String>) -> Replica {
        Replica::new(owner.into(), &self.servers, self.clock.clone())
    }

    /// Stops nodes: they refuse everything at once, like a server whose process ended. They keep
    /// their keys, whose TTLs continue. Operations queued on a frozen node are lost.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn stop(&self, nodes: impl NodeIndices) {
        self.each(nodes, |server| server.stop());
    }

    /// Starts nodes that were stopped, with the keys that they had. Other nodes are not affected.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn start(&self, nodes: impl NodeIndices) {
        self.each(nodes, SimServer::start);
    }

    /// Freezes nodes: they queue operations and answer none, like a server whose process is
    /// suspended. Clients stop waiting after the node timeout, and close the connection after a
    /// second. Stopped nodes are not affected.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn freeze(&self, nodes: impl NodeIndices) {
        self.each(nodes, |server| server.freeze());
    }

    /// Thaws frozen nodes: their queued operations run in order before this returns. As on a
    /// server, a grant or a claim of a tick is refused two node timeouts after it was sent. Other
    /// nodes are not affected.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn thaw(&self, nodes: impl NodeIndices) {
        self.each(nodes, SimServer::thaw);
    }

    /// Deletes all keys, fences, records and claims of ticks of nodes, like a restart without
    /// persistence. They begin a [probation](Self#probations); if they are stopped or frozen, it
    /// begins when they run again.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn forget(&self, nodes: impl NodeIndices) {
        self.each(nodes, SimServer::forget);
    }

    /// Like [`forget`](Self::forget) without a probation, as servers do under
    /// [`RestartGuard::Off`](crate::node::redis::RestartGuard::Off). If too many nodes forget, two
    /// managers hold the same lock, fencing tokens may repeat, and a tick may start twice.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn forget_unguarded(&self, nodes: impl NodeIndices) {
        self.each(nodes, |server| server.forget_unguarded());
    }

    /// Returns the number of keys that each node stores, without expired ones.
    pub fn key_counts(&self) -> Vec<usize> {
        self.servers.iter().map(|server| server.key_count()).collect()
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Returns whether there are no nodes; no manager can be built on an empty set.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    #[track_caller]
    fn each(&self, nodes: impl NodeIndices, what: impl Fn(&Arc<SimServer>)) {
        for node in nodes.into_vec() {
            what(&self.servers[node]);
        }
    }
}
