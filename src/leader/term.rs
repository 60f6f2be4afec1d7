use std::{fmt, ops::Deref, time::SystemTime};

use crate::guard::LockContext;

/// The time for which one candidate leads, as its work sees it. Its number is the
/// [fencing token](LockContext::fencing_token): each term's is greater than those of the terms
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

    /// Says that the work gets on with what it does; from any task or thread. Needed where
    /// [`heartbeat_within`](super::Leader::heartbeat_within) is set, and without effect otherwise.
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
