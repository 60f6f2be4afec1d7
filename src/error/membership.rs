//! Errors of operations on a set of servers.

use std::fmt;

use super::Votes;

/// Why a set of nodes was not moved to another layout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdoptError {
    /// One of the managers has no servers, or its restart guard is off, so there is nothing to
    /// move.
    NotGuarded,
    /// One of the managers has another number of [sets](crate::Redlock::sharded), so each name would have
    /// another set.
    OtherNumber {
        /// Number of sets of the old manager.
        old: usize,
        /// Number of sets of the new one.
        new: usize,
    },
    /// Both managers have the same nodes, prefix and guards, and no server stores them in the
    /// former form.
    SameLayout,
    /// Too few nodes of the old set were moved, so it can still grant locks. The moved nodes stay
    /// moved. Retry.
    ///
    /// A node counts if it voted and agreed with the others on the owners of the node names, as a
    /// former server of a name may still vote. A move of all nodes counts in any case.
    OldSet {
        /// Number of nodes that must be moved.
        needed: usize,
        /// The result of each node of the old set.
        votes: Votes,
    },
    /// The old set no longer grants locks, and too few nodes of the new one were enrolled. Retry.
    NewSet {
        /// Number of nodes that must be enrolled.
        needed: usize,
        /// The result of each node of the new set.
        votes: Votes,
    },
}

impl fmt::Display for AdoptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherNumber { old, new } => write!(
                f,
                "{old} sets of nodes cannot become {new}: each name would have another set; stop all clients, and start them with the new list"
            ),
            Self::NotGuarded => {
                f.write_str("only sets of servers with the restart guard can be moved")
            }
            Self::SameLayout => f.write_str("the old and the new set are the same"),
            Self::OldSet { needed, votes } => write!(
                f,
                "the old set can still grant locks: move at least {needed} of its voting nodes, or all of its nodes, then retry ({votes})"
            ),
            Self::NewSet { needed, votes } => write!(
                f,
                "the old set no longer grants locks: enrol at least {needed} nodes of the new set, then retry ({votes})"
            ),
        }
    }
}

impl std::error::Error for AdoptError {}

/// Why `max_ttl` was not lowered on every node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LowerError {
    /// The manager has no servers.
    NoServers,
    /// Some nodes did not accept the lower value. Retry for these nodes.
    Incomplete {
        /// The result of each node.
        votes: Votes,
    },
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServers => f.write_str("only servers keep a max_ttl"),
            Self::Incomplete { votes } => {
                write!(f, "not every node accepted the lower max_ttl ({votes})")
            }
        }
    }
}

impl std::error::Error for LowerError {}
