//! The votes that explain an error: the votes of nodes that did not carry out the operation.

use std::fmt;

use super::{Reason, VoteOutcome, Votes};

/// The nodes that did not carry out the operation, each with its answer, in parentheses. Nothing if there is none.
///
/// A node that granted is not a reason for an error, nor is one whose answer was not awaited.
#[derive(Clone, Debug)]
pub(crate) struct Refusals {
    votes: Votes,
    /// Number of all nodes.
    of: usize,
}

impl Refusals {
    pub(crate) fn among(votes: &Votes) -> Self {
        let is_refusal = |outcome: &VoteOutcome| {
            !matches!(outcome, VoteOutcome::Granted | VoteOutcome::NotCounted(Reason::NotAwaited))
        };
        let refusals = votes.iter().filter(|vote| is_refusal(&vote.outcome)).cloned();
        Self { votes: Votes::new(refusals).in_set(votes.set()), of: votes.len() }
    }

    /// Returns the number of these nodes, and of all nodes; `None` if there are none.
    pub(super) fn count(&self) -> Option<(usize, usize)> {
        (!self.votes.is_empty()).then_some((self.votes.len(), self.of))
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.votes.is_empty() { Ok(()) } else { write!(f, " ({})", self.votes) }
    }
}
