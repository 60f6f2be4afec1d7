use std::fmt;

use super::Votes;

/// Why `max_ttl` was not lowered on every node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LowerError {
    /// The manager has no servers.
    NoServers,
    /// Some nodes did not take the lower value. The others keep it: run it again for the rest.
    Incomplete {
        /// How each node came out.
        votes: Votes,
    },
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServers => f.write_str("only servers keep a max_ttl"),
            Self::Incomplete { votes } => {
                write!(f, "not every node took the lower max_ttl ({votes})")
            }
        }
    }
}

impl std::error::Error for LowerError {}
