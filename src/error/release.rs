use std::fmt;

use super::Votes;
use crate::resource::ResourceError;

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
    /// The key was not written by this crate: look at it with the server's own tools, and delete
    /// it there if nobody needs it.
    Foreign,
    /// The name to be revoked is none. Nothing was sent.
    InvalidResource(ResourceError),
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQuorum { votes } => {
                write!(f, "the release was not acknowledged by a quorum ({votes})")
            }
            Self::Foreign => f.write_str("the key was not written by this crate"),
            Self::InvalidResource(error) => write!(f, "invalid resource: {error}"),
        }
    }
}

impl std::error::Error for ReleaseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::InvalidResource(error) => Some(error),
            Self::NoQuorum { .. } | Self::Foreign => None,
        }
    }
}
