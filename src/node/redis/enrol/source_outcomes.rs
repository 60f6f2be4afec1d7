//! The outcomes of reading the other nodes, and whether enough of them were read.

use std::collections::BTreeMap;

use crate::{error::Reason, protocol::formulas::Sources};

pub(super) struct SourceOutcomes {
    /// Number of nodes in the set.
    nodes: usize,
    is_bootstrapped: bool,
    /// Whether each node that was read was complete, or why it was not read.
    by_node: BTreeMap<usize, Result<bool, Reason>>,
}

impl SourceOutcomes {
    pub(super) fn new(nodes: usize, is_bootstrapped: bool) -> Self {
        Self { nodes, is_bootstrapped, by_node: BTreeMap::new() }
    }

    /// Records the outcome of a node. A later failure does not replace an outcome, as the records
    /// were copied already.
    pub(super) fn add(&mut self, node: usize, outcome: Result<bool, Reason>) {
        if outcome.is_ok() || !matches!(self.by_node.get(&node), Some(Ok(_))) {
            self.by_node.insert(node, outcome);
        }
        debug_assert!(self.by_node.len() < self.nodes, "the node itself is not a source");
    }

    /// Returns whether a node has no outcome yet.
    pub(super) fn are_missing(&self) -> bool {
        self.by_node.len() < self.nodes - 1
    }

    /// Returns whether enough nodes were read.
    pub(super) fn suffice(&self) -> bool {
        let count = |is: bool| self.by_node.values().filter(|outcome| **outcome == Ok(is)).count();
        let (nodes, is_bootstrapped) = (self.nodes, self.is_bootstrapped);
        // The node itself lacks records.
        let incomplete = count(false) + 1;
        Sources { nodes, complete: count(true), incomplete, is_bootstrapped }.suffice()
    }

    /// Fails with the reason of one of the failures if too few nodes were read.
    pub(super) fn verdict(self) -> Result<(), Reason> {
        if self.suffice() {
            return Ok(());
        }
        let mut failures = self.by_node.into_values().filter_map(Result::err);
        Err(failures.next_back().unwrap_or(Reason::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_outcome_counts_instead() {
        let mut outcomes = SourceOutcomes::new(5, false);
        outcomes.add(0, Err(Reason::TimedOut));
        outcomes.add(1, Ok(false));
        outcomes.add(2, Ok(true));

        outcomes.add(3, Ok(true));

        assert!(!outcomes.suffice() && !outcomes.are_missing());

        let mut again = outcomes;
        again.add(1, Ok(true));
        assert!(again.suffice());

        again.add(1, Err(Reason::TimedOut));
        assert!(again.suffice(), "it was read");
        assert_eq!(again.verdict(), Ok(()));
    }

    #[test]
    fn incomplete_nodes_suffice_all_together() {
        let mut outcomes = SourceOutcomes::new(3, false);
        outcomes.add(0, Ok(false));
        assert!(outcomes.are_missing() && !outcomes.suffice());
        outcomes.add(2, Err(Reason::TimedOut));
        assert!(!outcomes.are_missing() && !outcomes.suffice());
        outcomes.add(2, Ok(false));
        assert!(outcomes.suffice());
    }

    #[test]
    fn failure_names_its_reason() {
        let mut outcomes = SourceOutcomes::new(3, false);
        outcomes.add(0, Ok(true));
        outcomes.add(2, Err(Reason::TimedOut));
        assert_eq!(outcomes.verdict(), Err(Reason::TimedOut));
    }
}
