//! A term as its work sees it, and leadership as others see it.

use std::{fmt, ops::Deref, sync::Arc, time::SystemTime};

use crate::{guard::LockContext, token::FencingToken};

/// The time for which one candidate leads, as its work sees it. Its number is the
/// [fencing token](LockContext::fencing_token): each term has a greater one than the terms
/// before.
///
/// Everything else that it knows of its lock is a [`LockContext`]'s. Cheap to clone; it does not
/// keep the lock.
#[derive(Clone)]
pub struct Term {
    context: LockContext,
    started: SystemTime,
}

impl Term {
    pub(crate) fn new(context: LockContext, started: SystemTime) -> Self {
        Self { context, started }
    }

    /// Records a heartbeat of the work; from any task or thread. Needed if
    /// [`heartbeat_within`](super::Leader::heartbeat_within) is set; no effect otherwise.
    pub fn heartbeat(&self) {
        self.context.heartbeat();
    }

    /// When this term began, by the wall clock.
    pub fn started(&self) -> SystemTime {
        self.started
    }
}

impl Deref for Term {
    type Target = LockContext;

    fn deref(&self) -> &LockContext {
        &self.context
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term")
            .field("context", &self.context)
            .field("started", &self.started)
            .finish()
    }
}

/// The state of a candidate, from [`Leader::transitions`](super::Leader::transitions).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// It is not running.
    #[default]
    NotRunning,
    /// It campaigns.
    Standby {
        /// The leader's owner name, as last seen; `None` if no leader was seen.
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
