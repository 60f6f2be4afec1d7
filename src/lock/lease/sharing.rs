//! Grants beside each other: the requests of a process that hold one shared lease (R16).
//!
//! A shared lease is on q nodes, each of which had no exclusive lease of the key when it took it; an
//! exclusive lease needs q nodes without a shared one. Two quorums have a node in common, so the two
//! kinds are never held at once. Nodes keep each lease until its own end, as they do an exclusive one,
//! so validity, renewal (R4) and restarts (R6) need no other rule.
//!
//! An exclusive request that waits leaves a mark on the nodes that refused it. Until the mark ends, 2 s
//! after its last attempt, a node takes no further shared lease of the key, also when the last one was
//! released: then the exclusive request comes next. The mark is for the order only. The exclusive lease
//! that follows counts as awaited, so its release wakes the shared requests that wait.
//!
//! Tokens: a shared lease accepts the greatest fence of q nodes, to which the others are raised. That is
//! at least the token of the last exclusive lease, which q nodes accepted, and less than that of the
//! next one, which is above the fences of q nodes (R9).
//!
//! The first request acquires the lease; further ones join it without a message while half of its
//! validity is left, and no request waits that can't join, here or elsewhere. Those that wait here join
//! once that is so again: after a renewal, or when the other request left. Each has a validity of its own,
//! which ends with the lease, or with its own maximum hold time. The lease is released when the last
//! of them is. An exclusive request elsewhere asks for it as for a lease that lingers, with each of its
//! attempts: for 2 s no further request joins.

use std::{sync::Arc, time::Duration};

use super::{
    active::ActiveLease,
    shared::{Grant, LeaseState, SharedLease},
};
use crate::{
    error::{LockError, LossCause},
    lock::{overrun::OverrunWatch, queue::HeldLease, released::Released, settings::Plan},
    metrics,
    quorum::NextHolder,
    resource::Resource,
    sync::{Guard, atomic::Ordering},
    time::Timestamp,
};

/// Time for which a process that was asked for its lease lets no further request join it: as long as the
/// mark of the request that asked, which it repeats with each attempt.
const CLOSED: Duration = Duration::from_secs(2);

impl ActiveLease {
    /// Starts the attempt at a shared lease in place of this exclusive one, whose grant ends. On each
    /// node that grants it the key changes hands at once, as both leases have one nonce.
    ///
    /// The grant ends before the first message: from then on others may share the key.
    pub(crate) fn downgrade(self: &Arc<Self>) -> Result<Arc<Self>, LockError> {
        let plan = Arc::new(self.plan().to_shared(self.resource())?);
        let lost = || LockError::lost(self.loss());
        let mut state = self.state().filter(|_| self.is_valid()).ok_or_else(lost)?;
        let Some(ticket) = state.ticket.take() else {
            drop(state);
            return Err(lost());
        };
        let held = self.end_hold(&mut state, self.now());
        drop(state);
        if let Some(time) = held {
            metrics::held(false, time);
        }
        let client = Arc::clone(self.client());
        let turn = (ticket, client.attempts.enter_at_once());
        let shared = Self::start_as(client, self.resource().clone(), plan, turn, self.id().nonce());
        // Deletes its key where the shared one is not granted.
        self.shared.give_back(self.shared.state(), false, self.now());
        Ok(shared)
    }
}

impl SharedLease {
    /// Grants the lease to a further request of this process. Returns `None` unless it is a shared
    /// lease that may be joined.
    pub(super) fn join_grant(
        self: &Arc<Self>,
        resource: &Resource,
        plan: &Arc<Plan>,
    ) -> Option<Arc<ActiveLease>> {
        if !self.is_open() || !self.fits(resource, plan) {
            return None;
        }
        let mut state = self.state();
        // A clock jump that the lease does not know of may have ended it.
        let is_current = state.epoch == self.client.clock_jumps.epoch();
        if state.granted.is_none() || !state.is_held() || !is_current {
            return None;
        }
        let now = self.client.clock().now();
        let next = NextHolder { max_hold: plan.max_hold, auto_extend: plan.auto_extend };
        let mut hand_off = state.lease.join(next, now)?;
        hand_off.until = hand_off.until.min(now + plan.max_hold);
        let nth = state.grants;
        state.grants = nth.checked_add(1)?;
        let lease = ActiveLease::new(self, nth, plan, now, Some(hand_off));
        state.others.push(Grant::of(&lease, now));
        let nudge = self.arm_later(&mut state, now);
        drop(state);
        self.client.timers.nudge(nudge);
        metrics::joined();
        Some(lease)
    }

    /// Ends the current grant, while others go on. Returns the state if the lease has to be released: no
    /// other grant is left, or those that are left have reached their own maximum hold time.
    pub(super) fn leave_others<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, LeaseState>,
        now: Timestamp,
    ) -> Result<(), Guard<'a, LeaseState>> {
        let held = state.others.iter().position(Grant::is_held);
        if held.is_none() && !state.grant.is_over() {
            return Err(state);
        }
        let next = held.map(|at| state.others.swap_remove(at)).or_else(|| state.others.pop());
        let Some(next) = next else { return Err(state) };
        let mut former = std::mem::replace(&mut state.grant, next);
        former.over = true;
        former.released = Some(Ok(Released::Released));
        let mut wakers = Vec::new();
        former.watchers.take(&mut wakers);
        self.end_checks(&mut former, &mut wakers);
        if let Some(lease) = state.held().max_by_key(|lease| lease.own_end()) {
            state.lease.leave(lease.started(), lease.plan().max_hold);
        }
        let nudge = self.arm_later(&mut state, now);
        drop(state);
        drop(former);
        self.client.timers.nudge(nudge);
        crate::sync::wake_all(wakers);
        Ok(())
    }

    /// Ends the grants whose own maximum hold time is over, while another one goes on. Returns whether
    /// none goes on, so that the whole lease ends.
    pub(super) fn end_own_holds<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, LeaseState>,
    ) -> (Guard<'a, LeaseState>, bool) {
        let now = self.client.clock().now();
        let lead = self.client.timers.lead();
        let is_over = |lease: &ActiveLease| now >= lease.own_end().saturating_sub(lead);
        let Some(last) = state.held().max_by_key(|lease| lease.own_end()) else {
            return (state, false);
        };
        if is_over(&last) {
            return (state, true);
        }
        let (mut wakers, mut overran) = (Vec::new(), Vec::new());
        for grant in state.each_grant().filter(|grant| grant.is_held()) {
            let Some(lease) = grant.lease.upgrade().filter(|lease| is_over(lease)) else {
                continue;
            };
            let ended = lease.valid_until();
            lease.ended.store(ended.as_nanos(), Ordering::SeqCst);
            lease.valid_until.store(0, Ordering::SeqCst);
            let loss = LossCause::MaxHold { limit: lease.plan().max_hold };
            grant.loss = Some(Box::new(loss));
            grant.watchers.take(&mut wakers);
            overran.push((lease, ended));
        }
        drop(state);
        for (lease, ended) in overran {
            crate::log::debug!(resource = %self.resource(), "a shared holder reached max_hold");
            if let Some((poll, _)) = lease.poll_under_way() {
                OverrunWatch::start(
                    &lease,
                    poll,
                    lease.plan().on_overrun,
                    ended,
                    lease.plan().slack,
                );
            }
        }
        crate::sync::wake_all(wakers);
        (self.state(), false)
    }

    /// Returns whether further requests may join it: it is shared, and no exclusive one waits elsewhere.
    pub(super) fn is_open(&self) -> bool {
        let is_closed = || self.reopens_at().is_some_and(|at| self.client.clock().now() < at);
        self.id.is_shared() && !is_closed() && !self.client.is_closed()
    }

    /// Returns until when an exclusive request elsewhere keeps further requests out.
    pub(super) fn reopens_at(&self) -> Option<Timestamp> {
        let asked_at = self.asked_at.load(Ordering::Acquire);
        (asked_at > 0).then(|| Timestamp::from_nanos(asked_at) + CLOSED)
    }

    /// Sets the timer for the end of that time.
    pub(super) fn arm_reopening(self: &Arc<Self>) {
        let mut state = self.state();
        let now = self.client.clock().now();
        let nudge = self.arm_later(&mut state, now);
        drop(state);
        self.client.timers.nudge(nudge);
    }

    /// Lets the requests of this process that wait join it, if new ones could.
    pub(super) fn readmit(&self) {
        if !self.is_open() {
            return;
        }
        let queue = self.state().ticket.as_ref().map(|ticket| Arc::clone(ticket.queue()));
        if let Some(queue) = queue {
            queue.readmit(&self.resource().shared_names()[0]);
        }
    }
}
