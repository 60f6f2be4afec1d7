//! Errors of operations on a set of servers.

use std::fmt;

use super::{SetNumber, VoteOutcome, Votes, refusals::Refusals};

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
    /// Both managers have the same nodes, prefix and guards. Of several sets, those that are the same in both
    /// managers stay as they are, and this is the error if all are.
    SameLayout,
    /// Of several sets, one has too few nodes that can be reached, and belong to no third set. Nothing was
    /// moved. Retry.
    NotMovable {
        /// The set.
        set: SetNumber,
        /// Whether it is a set of the new manager.
        is_new: bool,
        /// Number of its nodes that are needed.
        needed: usize,
        /// The result of each of its nodes.
        votes: Votes,
    },
    /// Of several sets, one was not moved, after others were. Retry.
    InSet {
        /// The set that was not moved.
        set: SetNumber,
        /// The numbers of the sets that were moved.
        moved: Box<[u16]>,
        /// Why it was not.
        error: Box<AdoptError>,
    },
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
            Self::NotMovable { set, is_new, needed, votes } => write!(
                f,
                "nothing was moved: of the {} {set}, at least {needed} nodes have to be up, and to belong to no set but this one, old or new; then retry{}",
                if *is_new { "new" } else { "old" },
                Refusals::among(votes)
            ),
            Self::InSet { set, moved, error } => {
                write!(f, "{set}: {error}")?;
                match &**moved {
                    [] => f.write_str("; no other set was moved"),
                    [one] => write!(f, "; set {one} was moved"),
                    [first, rest @ ..] => {
                        write!(f, "; sets {first}")?;
                        rest.iter().try_for_each(|number| write!(f, ", {number}"))?;
                        f.write_str(" were moved")
                    }
                }
            }
            Self::NotGuarded => {
                f.write_str("only sets of servers with the restart guard can be moved")
            }
            Self::SameLayout => f.write_str("the old and the new set are the same"),
            Self::OldSet { needed, votes } => write!(
                f,
                "the old set can still grant locks: move at least {needed} of its voting nodes, or all of its nodes, then retry{}",
                Refusals::among(votes)
            ),
            Self::NewSet { needed, votes } => write!(
                f,
                "the old set no longer grants locks: enrol at least {needed} nodes of the new set, then retry{}",
                Refusals::among(votes)
            ),
        }
    }
}

impl std::error::Error for AdoptError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::InSet { error, .. } => Some(&**error),
            _ => None,
        }
    }
}

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
    /// Of several [sets](crate::Redlock::sharded), some have nodes that did not accept the lower value. Retry for
    /// these nodes: the other sets are lowered.
    IncompleteSets {
        /// The result of each node of each set.
        votes: Box<[Votes]>,
    },
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServers => f.write_str("only servers keep a max_ttl"),
            Self::Incomplete { votes } => {
                write!(f, "not every node accepted the lower max_ttl{}", Refusals::among(votes))
            }
            Self::IncompleteSets { votes } => {
                f.write_str("not every node accepted the lower max_ttl")?;
                let is_lowered =
                    |votes: &&Votes| votes.iter().all(|vote| vote.outcome == VoteOutcome::Granted);
                for votes in votes.iter().filter(|votes| !is_lowered(votes)) {
                    write!(f, "{}", Refusals::among(votes))?;
                }
                for votes in votes.iter().filter(is_lowered) {
                    let Some(set) = votes.set() else { continue };
                    write!(f, "; {set} is lowered")?;
                }
                f.write_str("; run it again for the rest")
            }
        }
    }
}

impl std::error::Error for LowerError {}
