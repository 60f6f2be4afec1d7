//! The phases of a session.

use crate::error::Reason;

/// The phase of a session: greeting, then serving, then closing or leaving.
#[derive(Debug)]
pub(super) enum SessionPhase {
    /// The first health check is under way. No request is accepted.
    Greeting,
    /// Requests are accepted.
    Serving,
    /// The node was dropped. The session ends once every operation is answered.
    Closing,
    /// The connection has to end, for this reason. No request is accepted; the session ends once
    /// every operation that was written or queued is answered.
    Leaving(Reason),
}

impl SessionPhase {
    pub(super) const fn is_greeting(&self) -> bool {
        matches!(self, Self::Greeting)
    }

    pub(super) const fn is_serving(&self) -> bool {
        matches!(self, Self::Serving)
    }

    /// Returns whether the connection is about to end: it needs no health check and no login.
    pub(super) const fn is_leaving(&self) -> bool {
        matches!(self, Self::Leaving(_))
    }

    /// Returns whether administrative requests are accepted. Operations of a node that was dropped
    /// may still depend on them.
    pub(super) const fn accepts_admin(&self) -> bool {
        matches!(self, Self::Serving | Self::Closing)
    }

    /// Records the end of the first health check.
    pub(super) fn greeted(&mut self) {
        assert!(self.is_greeting(), "a session is greeted once: {self:?}");
        *self = Self::Serving;
    }

    /// Records that the node was dropped.
    pub(super) fn close(&mut self) {
        debug_assert!(self.is_serving(), "requests are received while serving: {self:?}");
        *self = Self::Closing;
    }

    /// Records that the connection has to end. The first reason counts.
    pub(super) fn leave(&mut self, reason: Reason) {
        assert!(!self.is_greeting(), "a greeting has nothing to wait for");
        if !self.is_leaving() {
            *self = Self::Leaving(reason);
        }
    }
}
