//! R6: whether a node that forgot its records has all of them again.

use crate::protocol::rules;

/// The nodes whose records were read for one that forgot its own, that one included. A node that does
/// not vote is not counted: its name may lead others to a server that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    /// How many nodes the set has.
    pub nodes: usize,
    /// Nodes that vote and lack no records.
    pub complete: usize,
    /// Nodes that vote and lack records themselves.
    pub incomplete: usize,
    /// The node started with a quorum of nodes that forgot, not by learning from others.
    pub is_bootstrapped: bool,
}

impl Sources {
    /// Whether the node may say from now on that there is no record.
    ///
    /// Each record that a quorum keeps is on one of N−q+1 other nodes that lack none. Where fewer
    /// lack none, a node that was not read may be the only one left that keeps a record, whatever the
    /// others forgot: so all have to be read. A bootstrapped node is part of a new set, whose records
    /// are all on one of any q nodes, itself included.
    pub(crate) const fn suffice(self) -> bool {
        let quorum = rules::quorum(self.nodes);
        let read = self.complete + self.incomplete;
        self.complete > self.nodes - quorum
            || read >= if self.is_bootstrapped { quorum } else { self.nodes }
    }
}
