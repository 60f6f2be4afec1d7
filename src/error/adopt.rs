use std::fmt;

use super::Votes;

/// Why a set of nodes was not moved to another layout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdoptError {
    /// One of the managers has no servers, or its restart guard is off: there is nothing to move.
    NotGuarded,
    /// Both managers have the same nodes, prefix and guards.
    SameLayout,
    /// Too few nodes of the old set could be moved, so it may still grant locks. Those that were
    /// moved stay so: run it again.
    ///
    /// Nodes count that voted and knew each other for the owners of their names when they were
    /// moved, as a former server of a name may still vote for others; or one node under each name.
    OldSet {
        /// How many nodes that count have to be moved.
        needed: usize,
        /// How each node of the old set came out.
        votes: Votes,
    },
    /// The old set is stopped, and too few nodes of the new one could be enrolled. Run it again.
    NewSet {
        /// How many nodes have to be enrolled.
        needed: usize,
        /// How each node of the new set came out.
        votes: Votes,
    },
}

impl fmt::Display for AdoptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGuarded => {
                f.write_str("only sets of servers with the restart guard can be moved")
            }
            Self::SameLayout => f.write_str("the old and the new set are the same"),
            Self::OldSet { needed, votes } => write!(
                f,
                "the old set may still grant locks: {needed} of its nodes that vote and know each other have to be moved, or all ({votes}); run it again"
            ),
            Self::NewSet { needed, votes } => write!(
                f,
                "the old set is stopped, and {needed} nodes of the new one have to be enrolled ({votes}); run it again"
            ),
        }
    }
}

impl std::error::Error for AdoptError {}
