use std::fmt;

use super::Votes;

/// Why a release was not acknowledged.
///
/// The lock is given up all the same: its work must stop, and the keys that are left expire with
/// their TTL, if a repeated release does not reach them before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// Too few nodes acknowledged in time.
    NoQuorum {
        /// What each node said.
        votes: Votes,
    },
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQuorum { votes } => {
                write!(f, "the release was not acknowledged by a quorum ({votes})")
            }
        }
    }
}

impl std::error::Error for ReleaseError {}
