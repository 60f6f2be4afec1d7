use std::{
    sync::{Arc, atomic::Ordering},
    task::Waker,
    time::Duration,
};

use super::{
    active::ActiveLease,
    shared::{Grant, SharedLease, State},
};
use crate::{
    lock::{queue::Left, stall::StallWatch},
    metrics,
    quorum::{Event, NextHolder},
    time::{Nudge, Timestamp},
};

/// A lease that has been held for so long goes back to the nodes: whether other processes wait is
/// known only from them.
const LONGEST_STREAK: Duration = Duration::from_millis(100);

impl ActiveLease {
    /// Gives back: to the next in line within this process, if that can be, else to the nodes,
    /// behind everything else that was sent; the next in line follows behind that.
    pub(crate) fn release(self: &Arc<Self>, awaited: bool) {
        if self.is_forked() {
            // It is the parent's.
            return;
        }
        let Some(mut state) = self.state() else { return };
        if state.grant.holder_gone {
            return;
        }
        state.grant.holder_gone = true;
        let now = self.timers().clock().now();
        let held = state.grant.held_since.take().map(|since| now.saturating_duration_since(since));
        if let Some(time) = held {
            self.shared.core.usual.held(self.resource(), time);
        }
        // Whoever comes next must not meet anybody who still believes in this grant.
        self.valid_until.store(0, Ordering::SeqCst);
        let Some((lease, waker, left)) = self.shared.hand_on(&mut state, now) else {
            if state.granted.is_some() {
                self.shared.core.wakeups.returning(self.resource(), self.shared.started);
            }
            let mut actions = std::mem::take(&mut state.spare);
            state.lease.handle(Event::Release { awaited }, now, &mut actions);
            self.shared.carry_out(state, actions, now);
            return held.into_iter().for_each(metrics::held);
        };
        let next = Grant {
            lease: Arc::downgrade(&lease),
            held_since: Some(now),
            ..Grant::new(self.nth + 1, lease.plan)
        };
        let mut former = std::mem::replace(&mut state.grant, next);
        former.over = true;
        let mut wakers = Vec::new();
        former.watchers.take(&mut wakers);
        self.shared.end_looks(&mut former, &mut wakers);
        // Else whoever is sending does it.
        let nudge = if state.sending { Nudge::default() } else { self.shared.arm(&mut state, now) };
        drop(state);
        self.timers().nudge(nudge);
        held.into_iter().for_each(metrics::held);
        left.tell();
        crate::log::debug!(resource = %self.resource(), "handed on");
        StallWatch::start(&lease, &lease.plan);
        crate::sync::wake_all(wakers);
        crate::sync::wake(waker);
    }
}

impl SharedLease {
    /// Gives the lease to the first in line, whom to wake is told. `None`, and nothing is changed,
    /// where it is to go back to the nodes.
    fn hand_on(
        self: &Arc<Self>,
        state: &mut State,
        now: Timestamp,
    ) -> Option<(Arc<ActiveLease>, Waker, Left)> {
        let nth = state.grant.nth + 1;
        let may = nth <= self.core.settings.handoff_limit
            && state.announced
            // Who reads a record tells the holders apart by the nonce, which is the lease's.
            && !state.grant.plan.keeps_records
            && state.granted.is_some_and(|since| now.saturating_duration_since(since) < LONGEST_STREAK)
            && !self.core.is_closed()
            // What a fresh grant would find out of the clocks.
            && self.core.clock_jumps.epoch() == self.first_epoch
            && self.is_valid_by_wall_for(self.validity / 2)
            && state.lease.can_be_handed_on(now);
        let ticket = state.ticket.as_ref().filter(|_| may)?;
        let lease = &mut state.lease;
        let in_turn = |at_grant| self.core.wakeups.is_in_turn(self.resource(), nth, at_grant);
        ticket.hand_on(self.ttl, in_turn, |plan| {
            let next = NextHolder { max_hold: plan.max_hold, auto_extend: plan.auto_extend };
            let hand_off = lease.hand_on(next, now)?;
            self.token.store(hand_off.token, Ordering::Release);
            Some(ActiveLease::new(self, nth, *plan, now, Some(hand_off)))
        })
    }
}
