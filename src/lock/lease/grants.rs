//! The grants under one lease.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    task::Waker,
};

use super::active::ActiveLease;
use crate::{
    error::{LockError, LossCause, ReleaseError},
    lock::{released::Released, settings::Plan, waker_set::WakerSet},
    time::{TimerKey, Timestamp},
};

/// One grant under a lease, or the attempt at one.
pub(super) struct Grant {
    /// Number of grants before it. Under an exclusive lease, all of them are over.
    pub(super) nth: u32,
    /// The settings of its request, unless they are those of the lease's first one.
    pub(super) own_plan: Option<Arc<Plan>>,
    /// The holder's handle.
    pub(super) lease: Weak<ActiveLease>,
    pub(super) decision: Option<Result<(), Box<LockError>>>,
    pub(super) loss: Option<Box<LossCause>>,
    /// Result of the last extension that was requested.
    pub(super) extension: Option<Result<(), Box<LockError>>>,
    pub(super) released: Option<Result<Released, Box<ReleaseError>>>,
    pub(super) watchers: WakerSet,
    /// Number of renewals. They wake their own watchers only, not the guarded work.
    pub(super) renewals: u64,
    pub(super) renewal_watchers: Option<Box<WakerSet>>,
    /// Timer of the next stall check.
    pub(super) stall_timer: Option<TimerKey>,
    /// Start of the grant, until the holder releases it.
    pub(super) held_since: Option<Timestamp>,
    pub(super) holder_gone: bool,
    /// Whether the release is decided.
    pub(super) over: bool,
}

impl Grant {
    /// Creates the grant of the next holder of a lease.
    pub(super) fn of(lease: &Arc<ActiveLease>, now: Timestamp) -> Self {
        Self {
            lease: Arc::downgrade(lease),
            held_since: Some(now),
            ..Self::new(lease.nth, lease.own_plan.clone())
        }
    }

    pub(super) fn new(nth: u32, own_plan: Option<Arc<Plan>>) -> Self {
        Self {
            nth,
            own_plan,
            lease: Weak::new(),
            decision: None,
            loss: None,
            extension: None,
            released: None,
            watchers: WakerSet::default(),
            renewals: 0,
            renewal_watchers: None,
            stall_timer: None,
            held_since: None,
            holder_gone: false,
            over: false,
        }
    }

    /// Returns the settings of its request; `first` are those of the lease's first one.
    pub(super) fn plan<'a>(&'a self, first: &'a Plan) -> &'a Plan {
        self.own_plan.as_deref().unwrap_or(first)
    }

    /// Moves the wakers of those who wait for a renewal to `wakers`.
    pub(super) fn take_renewal_watchers(&mut self, wakers: &mut Vec<Waker>) {
        if let Some(watchers) = &mut self.renewal_watchers {
            watchers.take(wakers);
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.held_since.is_some() && !self.is_over()
    }

    /// Returns whether it is lost or released.
    pub(super) fn is_over(&self) -> bool {
        self.over || self.loss.is_some()
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
    pub(super) fn add(&mut self, lease: &Arc<ActiveLease>, now: Timestamp) {
        self.others.insert(lease.nth, Grant::of(lease, now));
        self.begin_hold(lease);
    }

    /// Records that a grant of a shared lease is held.
    pub(super) fn begin_hold(&mut self, lease: &ActiveLease) {
        self.hold_ends.insert((lease.own_end(), lease.nth));
    }

    /// Records that a grant of a shared lease is not held any more.
    pub(super) fn end_hold(&mut self, lease: &ActiveLease) {
        self.hold_ends.remove(&(lease.own_end(), lease.nth));
    }

    /// Records that no grant is held any more.
    pub(super) fn end_holds(&mut self) {
        self.hold_ends.clear();
    }

    /// Makes the grant with this number the current one. Returns whether it has not ended.
    pub(super) fn turn_to(&mut self, nth: u32) -> bool {
        if self.current.nth == nth {
            return true;
        }
        let Some(grant) = self.others.remove(&nth) else { return false };
        let former = std::mem::replace(&mut self.current, grant);
        self.others.insert(former.nth, former);
        true
    }

    /// Returns all grants that have not ended.
    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut Grant> {
        std::iter::once(&mut self.current).chain(self.others.values_mut())
    }

    /// Returns all grants that have not ended.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Grant> {
        std::iter::once(&self.current).chain(self.others.values())
    }

    fn get_mut(&mut self, nth: u32) -> Option<&mut Grant> {
        if self.current.nth == nth { Some(&mut self.current) } else { self.others.get_mut(&nth) }
    }

    /// Returns whether a grant has a holder, and is not lost.
    pub(super) fn is_held(&self) -> bool {
        self.current.is_held() || !self.hold_ends.is_empty()
    }

    /// Returns the first and the last end of the maximum hold times of a shared lease's grants.
    pub(super) fn hold_ends(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.hold_ends.first()?.0, self.hold_ends.last()?.0))
    }

    /// Returns the handle of the grant of a shared lease that may be held longest.
    pub(super) fn longest_hold(&mut self) -> Option<Arc<ActiveLease>> {
        let (_, nth) = *self.hold_ends.last()?;
        self.get_mut(nth)?.lease.upgrade()
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

    /// Removes the current grant, whose hold has ended, while another one goes on, and returns it. `None` if
    /// no other one is held, nor left beside one that has ended.
    pub(super) fn leave(&mut self) -> Option<Grant> {
        let next = match self.hold_ends.first() {
            Some((_, nth)) => *nth,
            None if self.current.is_over() => *self.others.keys().next()?,
            None => return None,
        };
        let next = self.others.remove(&next)?;
        Some(std::mem::replace(&mut self.current, next))
    }
}
