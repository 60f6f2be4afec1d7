//! Nodes of a set that nobody uses any more are moved into ours.

use super::{
    NodeSet,
    activate::Known,
    adopt::{Leaving, State, take},
};
use crate::{error::Reason, membership::takeover::Foreign};

/// Takes a node, if none of its set's clients has looked at it meanwhile. It does not start before
/// enough nodes of that set were taken.
pub(super) async fn take_unused(
    set: &NodeSet,
    node: usize,
    foreign: &Foreign,
) -> Result<(), Reason> {
    let leaving = Leaving {
        layout: &foreign.layout,
        size: foreign.size,
        seen: &foreign.seen,
        ..Leaving::default()
    };
    take(set, node, State::Moved, &leaving, set, &Known::default()).await?;
    crate::log::warn!(
        node = %set.members()[node].status.name(),
        nodes = foreign.size,
        "the node belonged to another set of nodes, which nobody uses any more; it was taken over"
    );
    Ok(())
}

/// Begins the probation of a node that was moved, now that its old set has no quorum.
pub(super) async fn start_moved(set: &NodeSet, node: usize, tag: &str) -> Result<(), Reason> {
    let leaving = Leaving { tag, ..Leaving::default() };
    take(set, node, State::Probation, &leaving, set, &Known::default()).await.map(drop)
}
