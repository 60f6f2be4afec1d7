use std::{fmt, sync::Arc, time::Duration};

use crate::error::Reason;

/// How one node is doing, as last seen from this process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The node's name: `host:port/db`, or what it was given.
    pub name: Arc<str>,
    /// Whether it votes.
    pub state: NodeState,
    /// The latest round trip, if one was measured.
    pub round_trip: Option<Duration>,
    /// The server's version, as it calls itself.
    pub version: Option<Arc<str>>,
    /// How many operations wait for an answer of this node.
    pub in_flight: usize,
    /// How many releases of given-back leases it has not acknowledged.
    pub pending_releases: usize,
}

impl NodeHealth {
    /// A node that votes, and of which nothing else is known.
    pub fn voting(name: &str) -> Self {
        Self {
            name: name.into(),
            state: NodeState::Voting,
            round_trip: None,
            version: None,
            in_flight: 0,
            pending_releases: 0,
        }
    }

    /// Whether its votes count at present.
    pub fn is_voting(&self) -> bool {
        self.state == NodeState::Voting
    }
}

/// Whether a node votes, and if not, why.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NodeState {
    /// Connected, and nothing speaks against its votes: the last one counted, if there was one.
    Voting,
    /// The first connection is being opened; operations wait for it.
    Connecting,
    /// Connected, and what it is asked for is refused. Renewals may still work.
    Refusing {
        /// What it said last.
        reason: Reason,
        /// For how long.
        since: Duration,
    },
    /// Not usable at present; operations fail at once.
    Down {
        /// What the last try ran into.
        reason: Reason,
        /// For how long.
        since: Duration,
    },
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Voting => f.write_str("voting"),
            Self::Connecting => f.write_str("connecting"),
            Self::Refusing { reason, since } => write!(f, "refusing for {since:.1?}: {reason}"),
            Self::Down { reason, since } => write!(f, "down for {since:.1?}: {reason}"),
        }
    }
}

impl fmt::Display for NodeHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.state)
    }
}
