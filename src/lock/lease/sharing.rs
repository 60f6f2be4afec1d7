//! Grants beside each other: the requests of a process that hold one shared lease (R16).
//!
//! A shared lease is on q nodes, each of which had no exclusive lease of the key when it took it; an
//! exclusive lease needs q nodes without a shared one. Two quorums have a node in common, so the two
//! kinds are never held at once. Nodes keep each lease until its own end, as they do an exclusive one,
//! so validity, renewal (R4) and restarts (R6) need no other rule.
//!
//! An exclusive request that waits leaves its mark on the nodes that refused it (`lock/wait_mark.rs`).
//! Until the request ends, a node takes no further shared lease of the key, also when the last one was
//! released: then the exclusive request comes next. The mark is for the order only. The exclusive lease
//! that follows counts as awaited, so its release wakes the shared requests that wait; and so does a
//! request that ends without one.
//!
//! Tokens: a shared lease accepts the greatest fence of q nodes, to which the others are raised. That is
//! at least the token of the last exclusive lease, which q nodes accepted, and less than that of the
//! next one, which is above the fences of q nodes (R9).
//!
//! The first request acquires the lease; further ones join it without a message while half of its
//! validity is left, and no request waits that can't join, here or elsewhere. Those that wait here join
//! once that is so again: after a renewal, or when the other request left. Each has a validity of its own,
//! which ends with the lease, or with its own maximum hold time. The lease is released when the last
//! of them is. A request of work that one of them polls joins in any case: it would wait for itself.
//!
//! An exclusive lease becomes a shared one by a renewal in the other form, as both have one nonce: on each
//! node that has its key, the shared lease takes its place at once.
//!
//! An exclusive request elsewhere asks for it as for a lease that lingers, with each of its
//! attempts: until it withdraws, or for 2 s, no further request joins. The answers to renewals say the
//! same, where messages are lost or denied.

use std::{sync::Arc, time::Duration};

use super::{
    active::ActiveLease,
    grants::{Grant, Grants},
    scratch,
    shared::{LeaseReport, LeaseState, LossKind, SharedLease},
};
use crate::{
    error::{LockError, LossCause},
    lock::{overrun::OverrunWatch, queue::HeldLease, released::Released, settings::Plan},
    metrics,
    protocol::{MARK, formulas},
    quorum::{Event, NextHolder},
    resource::Resource,
    sync::{Guard, atomic::Ordering},
    time::Timestamp,
};

impl ActiveLease {
    /// Makes this exclusive lease a shared one, whose grant it returns, by a renewal in the other form. The
    /// shared lease is valid from now on, as the keys of the exclusive one keep others out until then.
    pub(crate) fn downgrade(self: &Arc<Self>) -> Result<Arc<Self>, LockError> {
        let plan = Arc::new(self.plan().to_shared(self.resource())?);
        let client = self.client();
        client.remote_requests.subscribe(&client.nodes, &client.settings.owner);
        // Clock jumps that the lease does not know of yet may have ended it.
        self.handle(Event::Wake);
        let lost = || LockError::lost(self.loss());
        let mut state = self.state().filter(|_| self.is_valid()).ok_or_else(lost)?;
        let now = self.now();
        let wall = client.nodes_wall(now, client.clock().wall()).as_micros();
        let next = NextHolder { max_hold: plan.max_hold, auto_extend: plan.auto_extend };
        let wall = u64::try_from(wall).unwrap_or(u64::MAX);
        let mut actions = scratch::actions();
        let has_turn = state.ticket.is_some();
        let downgraded =
            has_turn.then(|| state.lease.downgrade(next, wall, now, &mut actions)).flatten();
        let (Some((lease, hand_off)), Some(ticket)) = (downgraded, state.ticket.take()) else {
            scratch::keep_actions(actions);
            drop(state);
            return Err(lost());
        };
        // What the exclusive lease has in its queues is not sent any more.
        self.id().end();
        self.shared.mark_ended(&state);
        let held = self.end_hold(&mut state, now);
        let timer = state.timer.take();
        let grant = &mut state.grants.current;
        grant.over = true;
        grant.released = Some(Ok(Released::Released));
        let mut wakers = Vec::new();
        grant.watchers.take(&mut wakers);
        self.shared.end_checks(grant, &mut wakers);
        let shared = self.shared.continued(lease, &plan, (hand_off.token, state.epoch), now);
        drop(state);
        if let Some(timer) = timer {
            client.timers.remove(timer);
        }
        if let Some(time) = held {
            metrics::held(false, time);
        }
        let lease = Self::new(&shared, 0, &plan, now, Some(hand_off));
        lease.valid_until.fetch_min(lease.own_end().as_nanos(), Ordering::SeqCst);
        let mut state = shared.state();
        state.grants = Grants::new(Grant::of(&lease, now));
        state.grants.begin_hold(&lease);
        (state.granted, state.ticket) = (Some(now), Some(ticket));
        shared.carry_out(state, actions, now);
        shared.announce(Ok(()), &mut wakers);
        crate::sync::wake_all(wakers);
        Ok(lease)
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
        let is_joined = self.is_open() && self.fits(resource, plan);
        is_joined.then(|| self.join_beside(plan, self.plan.validity / 2)).flatten()
    }

    /// Grants the lease to a request of work that one of its holders polls: also while an exclusive request
    /// waits, which waits for that work.
    pub(crate) fn join_within(
        self: &Arc<Self>,
        resource: &Resource,
        plan: &Arc<Plan>,
    ) -> Option<Arc<ActiveLease>> {
        if !self.id.is_shared() || !self.fits(resource, plan) || self.client.is_closed() {
            return None;
        }
        // Clock jumps that the lease does not know of yet would keep it out.
        self.handle(self.state(), Event::Wake);
        // The work may pass the lock on, so it is held no longer than the present ones may be.
        let (_, last) = self.state().grants.hold_ends()?;
        let max_hold = plan.max_hold.min(last.saturating_duration_since(self.client.now()));
        self.join_beside(&Arc::new(Plan { max_hold, ..**plan }), Duration::ZERO)
    }

    /// Adds a grant, if `at_least` of the validity is left.
    fn join_beside(
        self: &Arc<Self>,
        plan: &Arc<Plan>,
        at_least: Duration,
    ) -> Option<Arc<ActiveLease>> {
        let mut state = self.state();
        // A clock jump that the lease does not know of may have ended it.
        let is_current = state.epoch == self.client.clock_jumps.epoch();
        if state.granted.is_none() || !state.grants.is_held() || !is_current {
            return None;
        }
        let now = self.client.clock().now();
        let next = NextHolder { max_hold: plan.max_hold, auto_extend: plan.auto_extend };
        let mut hand_off = state.lease.join(next, at_least, now)?;
        hand_off.until = hand_off.until.min(now + plan.max_hold);
        let nth = state.grants.next_number()?;
        let lease = ActiveLease::new(self, nth, plan, now, Some(hand_off));
        state.grants.add(&lease, now);
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
        let Some(mut former) = state.grants.leave() else { return Err(state) };
        former.over = true;
        former.released = Some(Ok(Released::Released));
        let mut wakers = Vec::new();
        former.watchers.take(&mut wakers);
        self.end_checks(&mut former, &mut wakers);
        if let Some(lease) = state.grants.longest_hold() {
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
        let is_over = |end: Timestamp| now >= end.saturating_sub(lead);
        let Some((first, last)) = state.grants.hold_ends() else { return (state, false) };
        if is_over(last) || !is_over(first) {
            return (state, is_over(last));
        }
        let (mut wakers, mut ended) = (Vec::new(), Vec::new());
        while let Some(grant) = state.grants.pop_hold(is_over) {
            let Some(lease) = grant.lease.upgrade() else { continue };
            let end = lease.valid_until();
            lease.ended.store(end.as_nanos(), Ordering::SeqCst);
            lease.valid_until.store(0, Ordering::SeqCst);
            let loss = LossCause::MaxHold { limit: lease.plan().max_hold };
            grant.loss = Some(Box::new(loss.clone()));
            grant.watchers.take(&mut wakers);
            self.end_checks(grant, &mut wakers);
            ended.push((lease, end, loss));
        }
        drop(state);
        for (lease, end, cause) in ended {
            LeaseReport { lost: Some((cause, LossKind::Planned)), ..LeaseReport::default() }
                .send(&self.client, &self.id);
            if let Some((poll, _)) = lease.poll_under_way() {
                let Plan { on_overrun, slack, .. } = *lease.plan();
                OverrunWatch::start(&lease, poll, on_overrun, end, slack);
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
        let closed_until = self.closed_until.load(Ordering::Acquire);
        (closed_until > 0).then(|| Timestamp::from_nanos(closed_until))
    }

    /// Lets no further request join it until then, as an exclusive request waits elsewhere.
    pub(super) fn close_until(self: &Arc<Self>, until: Timestamp) {
        self.closed_until.fetch_max(until.as_nanos(), Ordering::AcqRel);
        let mut state = self.state();
        let now = self.client.clock().now();
        let nudge = self.arm_later(&mut state, now);
        drop(state);
        self.client.timers.nudge(nudge);
    }

    /// Handles a node's answer to the round of renewal that `started` then, which says whether an exclusive
    /// request waits: the node's messages, which are faster, may be lost. Where a quorum of nodes sends
    /// none, as they are denied, the answers of the next round say when it waits no more.
    pub(super) fn renewed_beside_waiter(self: &Arc<Self>, started: Timestamp, is_awaited: bool) {
        let (now, round) = (self.client.now(), started.as_nanos());
        let has_messages = self.client.remote_requests.has_reports_since(now);
        if is_awaited {
            // An answer to an earlier round may arrive after the request has withdrawn.
            if round > self.reopened_at.load(Ordering::Acquire) {
                let next = formulas::renewal_interval(self.plan.validity) + self.plan.node_timeout;
                self.close_until(now + if has_messages { MARK } else { next.max(MARK) });
                self.closed_in.fetch_max(round, Ordering::AcqRel);
            }
        } else if !has_messages && (1..round).contains(&self.closed_in.load(Ordering::Acquire)) {
            self.reopen();
        }
    }

    /// Records that no exclusive request waits elsewhere any more.
    pub(crate) fn reopen(&self) {
        self.reopened_at.fetch_max(self.client.now().as_nanos(), Ordering::AcqRel);
        self.closed_in.store(0, Ordering::Release);
        self.closed_until.store(0, Ordering::Release);
        self.readmit();
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
