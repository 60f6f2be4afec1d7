//! Nodes around nodes, and nodes that are none.

use std::sync::{Arc, Mutex};

use tower_redlock::{
    Redlock, RedlockBuilder,
    error::Reason,
    node::{EmbeddedNodes, Node, NodeHealth, NodeState, Op, Reply},
};

/// What a builder takes as one node.
#[derive(Clone, Debug)]
pub(crate) struct Shared(pub(crate) Arc<dyn Node>);

impl Node for Shared {
    fn send(&self, op: Op, reply: Reply) {
        self.0.send(op, reply);
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn health(&self) -> NodeHealth {
        self.0.health()
    }
}

/// The nodes of a set, one by one.
pub(crate) fn shared(set: &EmbeddedNodes) -> Vec<Shared> {
    set.nodes("redlock").map(Shared).collect()
}

/// A node that answers everything with the same error, at once.
pub(crate) fn erring(reason: Reason) -> Shared {
    Shared(Arc::new(Erring(reason)))
}

#[derive(Debug)]
struct Erring(Reason);

impl Node for Erring {
    fn send(&self, _: Op, reply: Reply) {
        reply.send(Err(self.0.clone()));
    }

    fn name(&self) -> &'static str {
        "erring"
    }
}

/// A node that answers nothing, and is known to be in this state.
pub(crate) fn silent(state: NodeState) -> Shared {
    Shared(Arc::new(Silent { state, unanswered: Mutex::default() }))
}

#[derive(Debug)]
struct Silent {
    state: NodeState,
    /// A reply that is dropped is an answer.
    unanswered: Mutex<Vec<Reply>>,
}

impl Node for Silent {
    fn send(&self, _: Op, reply: Reply) {
        self.unanswered.lock().unwrap().push(reply);
    }

    fn name(&self) -> &'static str {
        "silent"
    }

    fn health(&self) -> NodeHealth {
        let mut health = NodeHealth::voting(self.name());
        health.state = self.state.clone();
        health
    }
}

/// A manager of these nodes, in this order.
pub(crate) fn manager(nodes: impl IntoIterator<Item = Shared>) -> Redlock {
    nodes.into_iter().fold(Redlock::builder(), RedlockBuilder::node).build().unwrap()
}
