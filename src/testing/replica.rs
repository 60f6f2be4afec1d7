//! The nodes from the view of one manager.

use std::{sync::Arc, time::Duration};

use super::{clock::ManualClock, network::Link, node_indices::NodeIndices, sim_server::SimServer};
use crate::{
    lock::{Redlock, RedlockBuilder},
    node::{Hints, Node, NodeHealth, Reply, Subscription},
    protocol::Op,
    time::Timestamp,
};

/// The connections of one manager to its [nodes](super::Nodes), which can be cut separately. Clones
/// are the same replica.
#[derive(Clone, Debug)]
pub struct Replica {
    owner: String,
    nodes: Arc<[ReplicaNode]>,
    clock: ManualClock,
}

#[derive(Clone, Debug)]
struct ReplicaNode {
    server: Arc<SimServer>,
    link: Arc<Link>,
}

impl Replica {
    pub(super) fn new(owner: String, servers: &[Arc<SimServer>], clock: ManualClock) -> Self {
        let node = |server: &Arc<SimServer>| ReplicaNode {
            server: Arc::clone(server),
            link: Arc::default(),
        };
        Self { owner, nodes: servers.iter().map(node).collect(), clock }
    }

    /// Returns the same replica on a machine whose clock is another view, perhaps
    /// [ahead](ManualClock::ahead_by) or [fast](ManualClock::running_fast_by). Set it before a
    /// manager is built.
    #[must_use]
    pub fn with_clock(mut self, clock: ManualClock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns a builder for this replica's manager, with its nodes, clock, owner, the clock's
    /// [spawner](ManualClock::spawner), and otherwise default settings. The nodes ignore
    /// `key_prefix`: all managers share their keys.
    pub fn builder(&self) -> RedlockBuilder {
        let clock = self.clock.clone();
        let builder = Redlock::builder().owner(&self.owner).spawner(clock.spawner()).clock(clock);
        self.nodes.iter().cloned().fold(builder, RedlockBuilder::node)
    }

    /// Builds a manager with the default settings.
    ///
    /// # Panics
    ///
    /// If there are no nodes, or if the owner's name is too long for a manager.
    pub fn redlock(&self) -> Redlock {
        self.builder().build().expect("the default settings are valid")
    }

    /// Cuts this replica off from nodes: operations are refused at once, as over a broken
    /// connection, and pending answers are lost. Operations queued on a frozen node still run
    /// there.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn partition(&self, nodes: impl NodeIndices) {
        for node in nodes.into_vec() {
            let ReplicaNode { server, link } = &self.nodes[node];
            server.cut_off(link);
        }
    }

    /// Reconnects this replica to nodes.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn heal(&self, nodes: impl NodeIndices) {
        for node in nodes.into_vec() {
            let ReplicaNode { server, link } = &self.nodes[node];
            server.heal(link);
        }
    }
}

impl Node for ReplicaNode {
    fn send(&self, op: Op, reply: Reply) {
        if self.link.cut_since().is_some() {
            return reply.not_sent(Link::reason());
        }
        self.server.send(op, reply, &self.link);
    }

    fn name(&self) -> &str {
        self.server.name()
    }

    fn health(&self) -> NodeHealth {
        self.server.health(&self.link)
    }

    fn wall(&self, _: Timestamp, _: Duration) -> Option<Duration> {
        self.server.wall(&self.link)
    }

    fn has_own_wall(&self) -> bool {
        true
    }

    fn subscribe(&self, name: &Arc<str>, hints: Hints) -> Subscription {
        self.server.subscribe(name, hints, &self.link)
    }
}
