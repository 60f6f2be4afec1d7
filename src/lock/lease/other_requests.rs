//! What other processes want of a lease, and whether it lingers until they ask for it.

use crate::{
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
    time::Timestamp,
};

/// What other processes want of a lease, by their refused requests and by the answers to renewals, and
/// whether the lease lingers. Times are in ns; 0 stands for never.
pub(super) struct OtherRequests {
    /// Start of the time in which other processes may have asked for it.
    pub(super) asked_from: Timestamp,
    /// When another process was last refused the lease.
    asked_at: AtomicU64,
    /// Until when an exclusive request elsewhere keeps further shared requests out.
    closed_until: AtomicU64,
    /// Start of the round of renewal that reported such a request.
    closed_in: AtomicU64,
    /// When the last such request withdrew.
    reopened_at: AtomicU64,
    /// A [`LingerPhase`].
    linger: AtomicU8,
}

/// Whether a lease lingers. A lease that has lingered counts towards the maximum number of such leases until
/// its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LingerPhase {
    /// It has not lingered.
    Never,
    Lingers,
    /// Its next holder has taken it over.
    TakenOver,
}

impl OtherRequests {
    pub(super) fn new(asked_from: Timestamp) -> Self {
        Self {
            asked_from,
            asked_at: AtomicU64::new(0),
            closed_until: AtomicU64::new(0),
            closed_in: AtomicU64::new(0),
            reopened_at: AtomicU64::new(0),
            linger: AtomicU8::new(LingerPhase::Never as u8),
        }
    }

    /// Records that another process was refused the lease.
    pub(super) fn ask(&self, at: Timestamp) {
        self.asked_at.fetch_max(at.as_nanos(), Ordering::AcqRel);
    }

    pub(super) fn was_asked(&self) -> bool {
        self.asked_at.load(Ordering::Acquire) != 0
    }

    // --- exclusive requests that wait for a shared lease ---

    /// Returns until when further shared requests are kept out.
    pub(super) fn closed_until(&self) -> Option<Timestamp> {
        let until = self.closed_until.load(Ordering::Acquire);
        (until > 0).then(|| Timestamp::from_nanos(until))
    }

    pub(super) fn close_until(&self, until: Timestamp) {
        self.closed_until.fetch_max(until.as_nanos(), Ordering::AcqRel);
    }

    /// Returns whether the round of renewal that `started` then is later than the last withdrawal.
    pub(super) fn is_news(&self, started: Timestamp) -> bool {
        started.as_nanos() > self.reopened_at.load(Ordering::Acquire)
    }

    /// Records that this round of renewal reported an exclusive request.
    pub(super) fn closed_in(&self, started: Timestamp) {
        self.closed_in.fetch_max(started.as_nanos(), Ordering::AcqRel);
    }

    /// Returns whether an earlier round of renewal reported an exclusive request.
    pub(super) fn was_closed_before(&self, started: Timestamp) -> bool {
        (1..started.as_nanos()).contains(&self.closed_in.load(Ordering::Acquire))
    }

    /// Records that no exclusive request waits any more.
    pub(super) fn reopen(&self, now: Timestamp) {
        self.reopened_at.fetch_max(now.as_nanos(), Ordering::AcqRel);
        self.closed_in.store(0, Ordering::Release);
        self.closed_until.store(0, Ordering::Release);
    }

    // --- linger ---

    pub(super) fn linger_phase(&self) -> LingerPhase {
        match self.linger.load(Ordering::Acquire) {
            0 => LingerPhase::Never,
            1 => LingerPhase::Lingers,
            _ => LingerPhase::TakenOver,
        }
    }

    /// Sets the phase. Called with the lease's state locked; with the local lines locked as well where a
    /// linger begins, or ends other than by a takeover.
    pub(super) fn set_linger_phase(&self, phase: LingerPhase) {
        self.linger.store(phase as u8, Ordering::Release);
    }
}
