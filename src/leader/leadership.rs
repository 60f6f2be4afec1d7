use std::{sync::Arc, time::SystemTime};

use crate::token::FencingToken;

/// Where a candidate stands, as [`Leader::transitions`](super::Leader::transitions) tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// Its `run` is not under way.
    #[default]
    NotRunning,
    /// It does not lead, and tries to.
    Standby {
        /// The owner that the leader's manager calls itself, as last seen; `None` where nobody was
        /// seen.
        leader: Option<Arc<str>>,
    },
    /// It leads.
    Leading {
        /// The number of the term.
        token: FencingToken,
        /// When the term began, by the wall clock.
        since: SystemTime,
    },
}

impl Leadership {
    /// Whether the candidate leads, as last told: see
    /// [`Leader::is_leader`](super::Leader::is_leader) for what holds at this moment.
    pub fn is_leading(&self) -> bool {
        matches!(self, Self::Leading { .. })
    }
}
