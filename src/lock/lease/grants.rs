//! The grants under one lease, and the phases of each.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    task::Waker,
};

use super::signals::GrantSignals;
use crate::{
    error::{LockError, LossCause, ReleaseError},
    lock::{released::Released, waker_set::WakerSet},
    time::{TimerKey, Timestamp},
};

/// One grant under a lease, or the attempt at one.
pub(super) struct Grant {
    pub(super) signals: Arc<GrantSignals>,
    phase: GrantPhase,
    /// The decision of the attempt, until the request takes it.
    pub(super) decision: Option<Result<(), Box<LockError>>>,
    /// Result of the last extension that was requested.
    pub(super) extension: Option<Result<(), Box<LockError>>>,
    pub(super) watchers: WakerSet,
    pub(super) renewals: GrantRenewals,
    /// Timer of the next stall check.
    pub(super) stall_timer: Option<TimerKey>,
}

/// The renewals of a grant. They wake their own watchers only, not the guarded work.
#[derive(Default)]
pub(super) struct GrantRenewals {
    pub(super) count: u64,
    pub(super) watchers: Option<Box<WakerSet>>,
}

/// ```text
/// Undecided ──► Held ──► Lost
///     │          │        │
///     └──────────┴────────┴──► Ended
/// ```
enum GrantPhase {
    /// The nodes have not decided the attempt.
    Undecided,
    Held {
        since: Timestamp,
    },
    /// The holder has not released it yet.
    Lost {
        since: Timestamp,
        cause: Box<LossCause>,
    },
    /// Its release is decided: by its holder, or for the whole lease, as after a refusal.
    Ended {
        holder: HolderState,
        loss: Option<Box<LossCause>>,
        result: Option<Result<Released, Box<ReleaseError>>>,
    },
}

/// The holder of a grant that has ended, or the request of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HolderState {
    /// It has not released the grant, which was held since this time, if ever.
    Present {
        held_since: Option<Timestamp>,
    },
    Gone,
}

/// How a grant was when its holder released it.
#[derive(Clone, Copy)]
pub(super) struct LeftGrant {
    /// Start of the hold, if it was held.
    pub(super) held_since: Option<Timestamp>,
    /// Whether it was lost, or its release was decided, before.
    pub(super) was_over: bool,
}

impl Grant {
    /// Creates the grant of a request whose attempt begins.
    pub(super) fn undecided(signals: Arc<GrantSignals>) -> Self {
        Self::new(signals, GrantPhase::Undecided)
    }

    /// Creates a grant that is held from `since` on.
    pub(super) fn held(signals: Arc<GrantSignals>, since: Timestamp) -> Self {
        Self::new(signals, GrantPhase::Held { since })
    }

    fn new(signals: Arc<GrantSignals>, phase: GrantPhase) -> Self {
        Self {
            signals,
            phase,
            decision: None,
            extension: None,
            watchers: WakerSet::default(),
            renewals: GrantRenewals::default(),
            stall_timer: None,
        }
    }

    // --- transitions ---

    /// Records that the nodes granted the attempt.
    pub(super) fn begin_hold(&mut self, now: Timestamp) {
        assert!(matches!(self.phase, GrantPhase::Undecided), "an attempt is granted once");
        self.phase = GrantPhase::Held { since: now };
    }

    /// Records that it is lost, if it is held.
    pub(super) fn lose(&mut self, cause: LossCause) {
        if let GrantPhase::Held { since } = self.phase {
            self.phase = GrantPhase::Lost { since, cause: Box::new(cause) };
        }
    }

    /// Sets the cause of a loss again, with the votes that were explained. A maximum hold time that was
    /// reached before stays the cause.
    pub(super) fn explain_loss(&mut self, explained: &LossCause) {
        if let GrantPhase::Lost { cause, .. } | GrantPhase::Ended { loss: Some(cause), .. } =
            &mut self.phase
            && !matches!(**cause, LossCause::MaxHold { .. })
        {
            **cause = explained.clone();
        }
    }

    /// Records that the release of its lease is decided.
    pub(super) fn end(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, GrantPhase::Undecided) {
            GrantPhase::Undecided => GrantPhase::ended(None, None),
            GrantPhase::Held { since } => GrantPhase::ended(Some(since), None),
            GrantPhase::Lost { since, cause } => GrantPhase::ended(Some(since), Some(cause)),
            ended @ GrantPhase::Ended { .. } => ended,
        };
    }

    /// Records that its holder has released it, or that the request of the attempt was dropped.
    pub(super) fn leave(&mut self) -> LeftGrant {
        let was_over = self.is_over();
        self.end();
        let GrantPhase::Ended { holder, .. } = &mut self.phase else {
            unreachable!("the grant has just ended");
        };
        match std::mem::replace(holder, HolderState::Gone) {
            HolderState::Present { held_since } => LeftGrant { held_since, was_over },
            HolderState::Gone => unreachable!("a grant is released once"),
        }
    }

    /// Sets the result of its release.
    pub(super) fn set_released(&mut self, released: Result<Released, Box<ReleaseError>>) {
        match &mut self.phase {
            GrantPhase::Ended { result, .. } => *result = Some(released),
            _ => debug_assert!(false, "the release of a grant that is not released has no result"),
        }
    }

    // --- questions ---

    pub(super) fn is_held(&self) -> bool {
        matches!(self.phase, GrantPhase::Held { .. })
    }

    /// Returns whether it is lost or released.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, GrantPhase::Lost { .. } | GrantPhase::Ended { .. })
    }

    /// Returns whether its release is decided.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase, GrantPhase::Ended { .. })
    }

    /// Returns whether its holder, or the request of the attempt, has not released it.
    pub(super) fn has_holder(&self) -> bool {
        !matches!(self.phase, GrantPhase::Ended { holder: HolderState::Gone, .. })
    }

    /// Returns why it was lost.
    pub(super) fn loss(&self) -> Option<&LossCause> {
        match &self.phase {
            GrantPhase::Lost { cause, .. } | GrantPhase::Ended { loss: Some(cause), .. } => {
                Some(cause)
            }
            GrantPhase::Undecided | GrantPhase::Held { .. } | GrantPhase::Ended { .. } => None,
        }
    }

    /// Returns the result of its release.
    pub(super) fn released(&self) -> Option<&Result<Released, Box<ReleaseError>>> {
        match &self.phase {
            GrantPhase::Ended { result, .. } => result.as_ref(),
            _ => None,
        }
    }

    /// Moves the wakers of the tasks that wait for a renewal to `wakers`.
    pub(super) fn take_renewal_watchers(&mut self, wakers: &mut Vec<Waker>) {
        if let Some(watchers) = &mut self.renewals.watchers {
            watchers.take(wakers);
        }
    }
}

impl GrantPhase {
    fn ended(held_since: Option<Timestamp>, loss: Option<Box<LossCause>>) -> Self {
        Self::Ended { holder: HolderState::Present { held_since }, loss, result: None }
    }
}

/// The grants of a lease: the current one, and those beside it if the lease is shared.
///
/// A shared lease may have thousands of grants, so each of them joins and leaves in logarithmic time.
pub(super) struct Grants {
    /// The current grant. Of a shared lease, the one that was used last.
    pub(super) current: Grant,
    /// The other grants of a shared lease, by their numbers.
    others: BTreeMap<u32, Grant>,
    /// For a shared lease, the end of the maximum hold time of each grant that is held.
    hold_ends: BTreeSet<(Timestamp, u32)>,
    /// Number of grants so far.
    count: u32,
}

impl Grants {
    /// Creates the grants of a lease with its first one.
    pub(super) fn new(first: Grant) -> Self {
        Self { current: first, others: BTreeMap::new(), hold_ends: BTreeSet::new(), count: 1 }
    }

    /// Returns the number of the next grant; `None` after the last number.
    pub(super) fn next_number(&mut self) -> Option<u32> {
        let nth = self.count;
        self.count = nth.checked_add(1)?;
        Some(nth)
    }

    /// Adds a grant beside the others.
    pub(super) fn add(&mut self, signals: &Arc<GrantSignals>, now: Timestamp) {
        let former = self.others.insert(signals.nth, Grant::held(Arc::clone(signals), now));
        assert!(former.is_none(), "each grant has a number of its own");
        self.begin_hold(signals);
    }

    /// Records that a grant of a shared lease is held.
    pub(super) fn begin_hold(&mut self, signals: &GrantSignals) {
        self.hold_ends.insert((signals.hold_until, signals.nth));
    }

    /// Records that a grant of a shared lease is not held any more.
    pub(super) fn end_hold(&mut self, signals: &GrantSignals) {
        self.hold_ends.remove(&(signals.hold_until, signals.nth));
    }

    /// Records that no grant is held any more.
    pub(super) fn end_holds(&mut self) {
        self.hold_ends.clear();
    }

    /// Makes the grant with this number the current one. Returns whether it has not ended.
    pub(super) fn turn_to(&mut self, nth: u32) -> bool {
        if self.current.signals.nth == nth {
            return true;
        }
        let Some(grant) = self.others.remove(&nth) else { return false };
        let former = std::mem::replace(&mut self.current, grant);
        self.others.insert(former.signals.nth, former);
        true
    }

    /// Returns all grants that have not been left.
    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut Grant> {
        std::iter::once(&mut self.current).chain(self.others.values_mut())
    }

    /// Returns all grants that have not been left.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Grant> {
        std::iter::once(&self.current).chain(self.others.values())
    }

    fn get_mut(&mut self, nth: u32) -> Option<&mut Grant> {
        if self.current.signals.nth == nth {
            Some(&mut self.current)
        } else {
            self.others.get_mut(&nth)
        }
    }

    /// Returns whether a grant has a holder, and is not lost.
    pub(super) fn is_held(&self) -> bool {
        self.current.is_held() || !self.hold_ends.is_empty()
    }

    /// Returns the first and the last end of the maximum hold times of a shared lease's grants.
    pub(super) fn hold_ends(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.hold_ends.first()?.0, self.hold_ends.last()?.0))
    }

    /// Returns the grant of a shared lease that may be held longest.
    pub(super) fn longest_hold(&mut self) -> Option<&Grant> {
        let (_, nth) = *self.hold_ends.last()?;
        self.get_mut(nth).map(|grant| &*grant)
    }

    /// Removes the hold that ends first, if `is_over` says so of its end. Returns its grant.
    pub(super) fn pop_hold(&mut self, is_over: impl Fn(Timestamp) -> bool) -> Option<&mut Grant> {
        let (end, nth) = *self.hold_ends.first()?;
        if !is_over(end) {
            return None;
        }
        self.hold_ends.pop_first();
        self.get_mut(nth)
    }

    /// Removes the current grant, which its holder has left, and returns it, while another grant continues.
    /// `None` if no other grant is held; also if the others have ended, unless this one had ended before as
    /// well (`was_over`): then the last of them releases the lease.
    pub(super) fn leave(&mut self, was_over: bool) -> Option<Grant> {
        debug_assert!(!self.current.has_holder(), "its holder has left it");
        let next = match self.hold_ends.first() {
            Some((_, nth)) => *nth,
            None if was_over => *self.others.keys().next()?,
            None => return None,
        };
        let next = self.others.remove(&next)?;
        Some(std::mem::replace(&mut self.current, next))
    }
}
