//! Sets of nodes that answer, fail or stay silent, and managers of them.

use tower_redlock::{
    Redlock,
    error::Reason,
    node::{EmbeddedNodes, NodeState},
};

use crate::support::mock_node::{MockNode, with_nodes};

/// The nodes of a set, one by one.
pub(crate) fn shared(set: &EmbeddedNodes) -> Vec<MockNode> {
    set.nodes("redlock").map(|node| MockNode::forwarding(&node)).collect()
}

/// A node that answers every operation with the same error.
pub(crate) fn erring(reason: Reason) -> MockNode {
    MockNode::answering("erring", move |_| Err(reason.clone()))
}

/// A node that answers nothing, and whose health shows `state`.
pub(crate) fn silent(state: NodeState) -> MockNode {
    MockNode::silent("silent").in_state(state)
}

/// A manager of these nodes, in this order.
pub(crate) fn manager(nodes: impl IntoIterator<Item = MockNode>) -> Redlock {
    with_nodes(Redlock::builder(), nodes).build().unwrap()
}

/// Two managers of the same nodes, named "ours" and "other".
pub(crate) fn managers() -> (Redlock, Redlock) {
    let nodes = EmbeddedNodes::new(3);
    let manager = |owner: &str| Redlock::builder().nodes_from(&nodes).owner(owner).build().unwrap();
    (manager("ours"), manager("other"))
}
