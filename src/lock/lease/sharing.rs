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
//! at least the token of the last exclusive lease, which q nodes accepted, and less than the token of the
//! next one, which is above the fences of q nodes (R9).
//!
//! The first request acquires the lease; further ones join it without a message while half of its
//! validity is left, and no request waits that can't join, here or elsewhere. Those that wait here join
//! once that is so again: after a renewal, or when the other request left. Each has a validity of its own,
//! which ends with the lease, or with its own maximum hold time. The lease is released when the last
//! of them is. A request from work that one of them polls joins in any case: otherwise it would wait for itself.
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
    local::{LeaseState, LocalLease},
    report::{LeaseReport, LossKind},
    signals::GrantSignals,
};
use crate::{
    error::{LockError, LossCause},
    lock::{released::Released, settings::Plan},
    metrics,
    protocol::{WAIT_MARK_TTL, formulas},
    quorum::{Event, NextHolder},
    resource::Resource,
    sync::Guard,
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
        let mut actions = Vec::new();
        let downgraded = match state.turn.announced() {
            Some(_) => state.lease.downgrade(next, wall, now, &mut actions),
            None => None,
        };
        let (Some((lease, hand_off)), Some(ticket)) = (downgraded, state.turn.take()) else {
            drop(state);
            return Err(lost());
        };
        // What the exclusive lease has in its queues is not sent any more.
        self.id().end();
        self.local.mark_ended(&state);
        let hold = self.local.leave(&mut state, now);
        let timer = state.timer.take();
        let grant = &mut state.grants.current;
        grant.set_released(Ok(Released::Released));
        let mut wakers = Vec::new();
        grant.watchers.take(&mut wakers);
        self.local.end_checks(grant, &mut wakers);
        let signals = GrantSignals::new(0, &plan, now, Some(hand_off));
        let shared = self.local.continued(lease, &plan, state.epoch, ticket, &signals, now);
        drop(state);
        if let Some(timer) = timer {
            client.timers.remove(timer);
        }
        if let Some(time) = hold.held_for {
            metrics::held(false, time);
        }
        let lease = Self::of(&shared, signals);
        shared.carry_out(shared.state(), actions, now);
        shared.announce(Ok(()), &mut wakers);
        crate::sync::wake_all(wakers);
        Ok(lease)
    }
}

impl LocalLease {
    /// Returns whether this request may ever join it: it is shared, for this resource, with this TTL.
    pub(crate) fn fits(&self, resource: &Resource, plan: &Plan) -> bool {
        plan.is_shared() && plan.ttl == self.plan.ttl && resource == self.resource()
    }

    /// Grants the lease to a further request of this process. Returns `None` unless it is a shared
    /// lease that may be joined. Must not be called with a mutex locked.
    pub(crate) fn join(
        self: &Arc<Self>,
        resource: &Resource,
        plan: &Arc<Plan>,
    ) -> Option<Arc<ActiveLease>> {
        let is_joined = self.is_open() && self.fits(resource, plan);
        is_joined.then(|| self.join_beside(plan, self.plan.validity / 2)).flatten()
    }

    /// Grants the lease to a request of work that one of its holders polls, also while an exclusive request
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
        let hand_off = state.lease.join(next, at_least, now)?;
        let nth = state.grants.next_number()?;
        let signals = GrantSignals::new(nth, plan, now, Some(hand_off));
        state.grants.add(&signals, now);
        let nudge = self.arm_later(&mut state, now);
        drop(state);
        self.client.timers.nudge(nudge);
        metrics::joined();
        Some(ActiveLease::of(self, signals))
    }

    /// Removes the current grant, which its holder has left, while others continue. Returns the state if the
    /// lease has to be released: no other grant is left, or the others have reached their own maximum hold
    /// time. `was_over`: the grant was over before its holder left.
    pub(super) fn leave_others<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, LeaseState>,
        was_over: bool,
        now: Timestamp,
    ) -> Result<(), Guard<'a, LeaseState>> {
        let Some(mut former) = state.grants.leave(was_over) else { return Err(state) };
        let mut wakers = Vec::new();
        former.watchers.take(&mut wakers);
        self.end_checks(&mut former, &mut wakers);
        if let Some(longest) = state.grants.longest_hold() {
            let signals = Arc::clone(&longest.signals);
            state.lease.leave(signals.started, signals.plan.max_hold);
        }
        let nudge = self.arm_later(&mut state, now);
        drop(state);
        drop(former);
        self.client.timers.nudge(nudge);
        crate::sync::wake_all(wakers);
        Ok(())
    }

    /// Ends the grants whose own maximum hold time is over, while another one continues. Returns whether
    /// none continues, so that the whole lease ends.
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
        let (mut wakers, mut causes, mut overran) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(grant) = state.grants.pop_hold(is_over) {
            let end = grant.signals.valid_until();
            overran.extend(Self::end_early(&grant.signals, end));
            let loss = LossCause::MaxHold { limit: grant.signals.plan.max_hold };
            grant.lose(loss.clone());
            grant.watchers.take(&mut wakers);
            self.end_checks(grant, &mut wakers);
            causes.push(loss);
        }
        drop(state);
        for cause in causes {
            LeaseReport { lost: Some((cause, LossKind::Planned)), ..LeaseReport::default() }
                .send(&self.client, &self.id);
        }
        for overran in overran {
            self.watch_overrun(overran);
        }
        crate::sync::wake_all(wakers);
        (self.state(), false)
    }

    /// Returns whether further requests may join it: it is shared, and no exclusive one waits elsewhere.
    pub(crate) fn is_open(&self) -> bool {
        let is_closed = || {
            let until = self.others.closed_until();
            until.is_some_and(|until| self.client.clock().now() < until)
        };
        self.id.is_shared() && !is_closed() && !self.client.is_closed()
    }

    /// Lets no further request join it until then, as an exclusive request waits elsewhere.
    pub(super) fn close_until(self: &Arc<Self>, until: Timestamp) {
        self.others.close_until(until);
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
        let now = self.client.now();
        let has_messages = self.client.remote_requests.has_reports_since(now);
        if is_awaited {
            // An answer to an earlier round may arrive after the request has withdrawn.
            if self.others.is_news(started) {
                let next = formulas::renewal_interval(self.plan.validity) + self.plan.node_timeout;
                self.close_until(
                    now + if has_messages { WAIT_MARK_TTL } else { next.max(WAIT_MARK_TTL) },
                );
                self.others.closed_in(started);
            }
        } else if !has_messages && self.others.was_closed_before(started) {
            self.reopen();
        }
    }

    /// Records that no exclusive request waits elsewhere any more.
    pub(crate) fn reopen(&self) {
        self.others.reopen(self.client.now());
        self.readmit();
    }

    /// Lets the requests of this process that wait join it, if new ones could.
    pub(super) fn readmit(&self) {
        if !self.is_open() {
            return;
        }
        let queue = self.state().turn.ticket().map(|ticket| Arc::clone(ticket.queue()));
        if let Some(queue) = queue {
            queue.readmit(&self.resource().shared_names()[0]);
        }
    }
}
