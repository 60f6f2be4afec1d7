//! The release of a grant: to the next waiter of this process, to a linger, or to the nodes.

use std::{sync::Arc, task::Waker, time::Duration};

use super::{
    active::ActiveLease,
    grants::Grant,
    scratch,
    shared::{LeaseState, SharedLease},
};
use crate::{
    lock::{queue::LeftWaiters, settings::Plan, stall::StallWatch},
    metrics,
    quorum::{Event, NextHolder},
    sync::{Guard, atomic::Ordering},
    time::Timestamp,
};

/// Maximum time for which hand-offs keep a lease. Then it returns to the nodes, which know whether
/// other processes wait.
const HAND_OFF_PERIOD: Duration = Duration::from_millis(100);

impl ActiveLease {
    /// Releases the grant: to the next waiter of this process if possible, else to the nodes, after
    /// all that was sent before. Then the turn in the local line passes on.
    pub(crate) fn release(self: &Arc<Self>, awaited: bool) {
        let now = self.now();
        let Some(mut state) = self.state().filter(|state| !state.grants.current.holder_gone) else {
            return;
        };
        let held = self.end_hold(&mut state, now);
        let report = || held.into_iter().for_each(|time| metrics::held(self.is_shared(), time));
        if self.is_shared() {
            state = match self.shared.leave_others(state, now) {
                Ok(()) => return report(),
                Err(state) => state,
            };
        }
        let Some((lease, waker, left)) = self.shared.hand_on(&mut state, now) else {
            if let Err(state) = self.shared.linger(state, now) {
                self.shared.give_back(state, awaited, now);
            }
            return report();
        };
        let mut former = std::mem::replace(&mut state.grants.current, Grant::of(&lease, now));
        former.over = true;
        let mut wakers = Vec::new();
        former.watchers.take(&mut wakers);
        self.shared.end_checks(&mut former, &mut wakers);
        let nudge = self.shared.arm_later(&mut state, now);
        drop(state);
        self.timers().nudge(nudge);
        report();
        left.update_gauge();
        crate::log::debug!(resource = %self.resource(), "handed on");
        StallWatch::start(&lease);
        crate::sync::wake_all(wakers);
        crate::sync::wake(waker);
    }

    /// Ends the use of this grant by its holder. Returns the time for which it was held.
    pub(super) fn end_hold(&self, state: &mut LeaseState, now: Timestamp) -> Option<Duration> {
        state.grants.current.holder_gone = true;
        if self.is_shared() {
            state.grants.end_hold(self);
        }
        let since = state.grants.current.held_since.take();
        let held = since.map(|since| now.saturating_duration_since(since));
        if let Some(time) = held {
            self.client().hold_times.record(self.resource(), time);
        }
        // The next holder must not overlap with users of this handle.
        self.valid_until.store(0, Ordering::SeqCst);
        held
    }
}

impl SharedLease {
    /// Releases the lease to the nodes.
    pub(super) fn give_back<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, LeaseState>,
        awaited: bool,
        now: Timestamp,
    ) {
        if state.granted.is_some() {
            self.client.wakeups.returning(self.resource(), self.started, now);
        }
        if awaited {
            self.id.await_release();
        }
        let mut actions = scratch::actions();
        state.lease.handle(Event::Release { awaited }, now, &mut actions);
        self.carry_out(state, actions, now);
    }

    /// Gives the lease to the first waiter in line. Returns its grant and its waker, or `None`,
    /// without a change, if the lease has to go back to the nodes.
    fn hand_on(
        self: &Arc<Self>,
        state: &mut LeaseState,
        now: Timestamp,
    ) -> Option<(Arc<ActiveLease>, Waker, LeftWaiters)> {
        if self.id.is_shared() {
            return None;
        }
        let nth = state.grants.current.nth + 1;
        let limit = self.client.settings.bounds.handoff_limit;
        let is_short = nth <= limit
            && state
                .granted
                .is_some_and(|since| now.saturating_duration_since(since) < HAND_OFF_PERIOD);
        let lingers = || {
            limit > 0
                && !state.grants.current.plan(&self.plan).linger.is_zero()
                && self.is_unwanted()
        };
        let is_allowed = (is_short || lingers()) && self.may_stay(state, now);
        let ticket = state.ticket.as_ref().filter(|_| is_allowed)?;
        let lease = &mut state.lease;
        let in_turn = |nth, in_line| self.client.wakeups.is_in_turn(self.resource(), nth, in_line);
        let mut make = |plan: &Arc<Plan>| {
            let next = NextHolder { max_hold: plan.max_hold, auto_extend: plan.auto_extend };
            let hand_off = lease.hand_on(next, now)?;
            self.token.store(hand_off.token, Ordering::Release);
            Some(ActiveLease::new(self, nth, plan, now, Some(hand_off)))
        };
        let handed = ticket.hand_on(self.plan.ttl, |at_grant| in_turn(nth, at_grant), &mut make);
        // All slots of the process serve its line, so for other processes the time counts, as in a second
        // pass of the line.
        let slot = self.resource().slot().filter(|_| handed.is_none());
        let to_any =
            slot.and_then(|slot| ticket.hand_on_slot(slot, self.plan.ttl, || in_turn(1, 1), make));
        handed.or(to_any)
    }
}
