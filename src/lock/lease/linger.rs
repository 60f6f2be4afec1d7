//! A lease that its process keeps after a release, for its next request.
//!
//! With the option `linger`, a process keeps a released lock that none of its requests waits for:
//! the nodes keep the key, no renewal is sent, and the process gives the lock back after that time,
//! or after half of the validity. Its next request for exactly these names with the same TTL takes
//! the lock over, as in a hand-off.
//!
//! Another process can ask for such a lock. The key has a mark that says that the lease may linger.
//! An acquire that is refused such a key publishes the name on the channel of the key's owner, and
//! changes the mark if a process listens there, so that only one refusal asks. The owner then gives
//! the lease back: at once if it lingers, otherwise at the end of the present hold, under the
//! limits of any hand-off. Until then these limits (`handoff_limit`, 100 ms) do not apply, since no
//! other process waits. A question may arrive before the grant that it is about, so the manager
//! keeps the time of the last question for each name, and compares it with the start of the lease.
//! After a question, new leases of the name do not linger for a second: otherwise a client that
//! makes single attempts would meet a lingering lease each time. The pause doubles, up to a minute,
//! if another question comes within a minute of its end (`lock/remote_requests.rs`).
//!
//! A lease lingers only if a quorum of nodes has reported to the owner since before the lease was
//! requested, and all lingering leases are given back when fewer than a quorum report. So one of
//! the nodes that keep the lease reports. A client that reaches only others of them is refused
//! without asking, and a report may be lost: then the client waits for the end of the linger, which
//! is bounded. If the name is always in use, it waits until the lease has had 256 holders and is a
//! second old.
//!
//! Safety: a lease that lingers has no holder and an end that a quorum confirmed, and the next
//! holder has no later one.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    active::ActiveLease,
    grants::Grant,
    shared::{LeaseState, SharedLease},
};
use crate::{
    lock::{queue::HeldLease, released::Released, settings::Plan, stall::StallWatch},
    metrics,
    protocol::MARK,
    quorum::{Event, NextHolder},
    resource::Resource,
    sync::{Guard, atomic::Ordering},
    time::{Nudge, Timestamp},
    token::BLOCK,
};

/// Time after which a lease that has had 256 holders ([`BLOCK`]) returns to the nodes.
const LONGEST_STAY: Duration = Duration::from_secs(1);

impl SharedLease {
    /// Returns whether no other process wants the lease: the nodes would have reported a refused
    /// request.
    pub(super) fn is_unwanted(&self) -> bool {
        self.id.lingers()
            && self.asked_at.load(Ordering::Acquire) == 0
            && self.client.remote_requests.has_reports_since(self.started)
    }

    /// Returns whether the lease may go to another holder of this process.
    pub(super) fn may_stay(&self, state: &LeaseState, now: Timestamp) -> bool {
        state.announced
            // Records identify holders by the lease's nonce.
            && !state.grants.current.plan(&self.plan).keeps_records
            && !self.client.is_closed()
            // After a clock jump the lock returns to the nodes.
            && self.client.clock_jumps.epoch() == self.first_epoch
            && !Self::is_long_kept(state, now)
            && state.lease.can_be_handed_on(now)
    }

    /// Returns whether the lease has had many holders for a long time. Some processes that want it
    /// can't ask for it.
    fn is_long_kept(state: &LeaseState, now: Timestamp) -> bool {
        let since = state.granted.unwrap_or(now);
        u64::from(state.grants.current.nth) + 1 >= BLOCK
            && now.saturating_duration_since(since) >= LONGEST_STAY
    }

    /// Keeps the lease, whose holder is releasing it, for the next request of this process. Returns
    /// the state if the lease has to be released to the nodes.
    pub(super) fn linger<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, LeaseState>,
        now: Timestamp,
    ) -> Result<(), Guard<'a, LeaseState>> {
        let Plan { linger, .. } = *state.grants.current.plan(&self.plan);
        // Runs under the mutex of the lines: a shutdown closes the manager, then locks that mutex.
        let begin = || {
            let is_counted = self.is_counted.load(Ordering::Acquire);
            let may_begin =
                !self.client.is_closed() && (is_counted || self.client.remote_requests.enter());
            self.is_counted.store(is_counted || may_begin, Ordering::Release);
            self.is_lingering.store(may_begin, Ordering::Release);
            may_begin
        };
        let is_kept = !linger.is_zero()
            && self.is_unwanted()
            && self.may_stay(&state, now)
            && self.client.wakeups.is_in_turn(self.resource(), state.grants.current.nth + 1, 1)
            && state.lease.linger(now + linger, now)
            && state.ticket.as_ref().is_some_and(|ticket| ticket.keep_if(begin));
        if !is_kept {
            return Err(state);
        }
        let grant = &mut state.grants.current;
        grant.over = true;
        grant.released = Some(Ok(Released::Released));
        // A late renewal must not make the former holder's handle valid again.
        grant.lease = Weak::new();
        let mut wakers = Vec::new();
        grant.watchers.take(&mut wakers);
        self.end_checks(grant, &mut wakers);
        let nudge = self.arm_later(&mut state, now);
        drop(state);
        self.client.timers.nudge(nudge);
        crate::sync::wake_all(wakers);
        Ok(())
    }

    /// Sets the timer, unless a thread is sending, which sets it afterwards.
    pub(super) fn arm_later(self: &Arc<Self>, state: &mut LeaseState, now: Timestamp) -> Nudge {
        if state.sending { Nudge::default() } else { self.arm(state, now) }
    }

    /// Returns the present grant, if it has a holder.
    pub(crate) fn present(&self) -> Option<Arc<ActiveLease>> {
        self.state().grants.current.lease.upgrade()
    }

    /// Records that the lease, whose release is decided, does not linger any more: requests of this
    /// process wait for its turn as for an attempt.
    pub(super) fn mark_ended(&self, state: &LeaseState) {
        if self.is_counted.load(Ordering::Acquire) && self.is_counted.swap(false, Ordering::AcqRel)
        {
            self.client.remote_requests.leave();
        }
        if self.is_lingering() {
            self.client.wakeups.returning(self.resource(), self.started, self.client.now());
            // Set at once, for requests that join the lines.
            if let Some(ticket) = &state.ticket {
                ticket.report_linger_end(|| self.is_lingering.store(false, Ordering::Release));
            }
        }
    }

    /// Ends the linger, or closes a shared lease to further requests for a time, because another process
    /// was refused the lease.
    pub(crate) fn asked(self: &Arc<Self>, at: Timestamp) {
        if self.id.is_shared() {
            self.close_until(at + MARK);
        } else {
            self.asked_at.fetch_max(at.as_nanos(), Ordering::AcqRel);
            self.end_linger();
        }
    }

    /// Records a request of another process that came before the grant was reported to the local line.
    pub(super) fn record_earlier_ask(self: &Arc<Self>) {
        if let Some(at) = self.client.remote_requests.asked_since(self.resource(), self.asked_from)
        {
            self.asked(at);
        }
    }
}

impl HeldLease for SharedLease {
    type Grant = ActiveLease;

    fn remaining(&self) -> Option<Duration> {
        self.present().map(|grant| grant.remaining())
    }

    fn is_lingering(&self) -> bool {
        self.is_lingering.load(Ordering::Acquire)
    }

    fn is_shared(&self) -> bool {
        self.id.is_shared()
    }

    fn take_over(
        self: &Arc<Self>,
        resource: &Resource,
        plan: &Arc<Plan>,
    ) -> Option<Arc<ActiveLease>> {
        let mut state = self.state();
        if !state.lease.is_lingering() {
            return None;
        }
        let now = self.client.clock().now();
        let fits = resource == self.resource()
            && plan.ttl == self.plan.ttl
            && !plan.keeps_records
            && !plan.is_shared();
        let next = NextHolder { max_hold: plan.max_hold, auto_extend: plan.auto_extend };
        let is_kept = fits && self.may_stay(&state, now);
        let Some(hand_off) = is_kept.then(|| state.lease.hand_on(next, now)).flatten() else {
            self.handle(state, Event::Release { awaited: false });
            return None;
        };
        self.is_lingering.store(false, Ordering::Release);
        self.token.store(hand_off.token, Ordering::Release);
        let lease = ActiveLease::new(self, state.grants.current.nth + 1, plan, now, Some(hand_off));
        let former = std::mem::replace(&mut state.grants.current, Grant::of(&lease, now));
        let nudge = self.arm_later(&mut state, now);
        drop(state);
        drop(former);
        self.client.timers.nudge(nudge);
        metrics::taken_over();
        crate::log::debug!(resource = %self.resource(), "taken over");
        StallWatch::start(&lease);
        Some(lease)
    }

    fn is_open(&self) -> bool {
        Self::is_open(self)
    }

    fn ttl(&self) -> Duration {
        self.plan.ttl
    }

    fn fits(&self, resource: &Resource, plan: &Plan) -> bool {
        plan.is_shared() && plan.ttl == self.plan.ttl && resource == self.resource()
    }

    fn join(self: &Arc<Self>, resource: &Resource, plan: &Arc<Plan>) -> Option<Arc<ActiveLease>> {
        self.join_grant(resource, plan)
    }

    fn end_linger(self: &Arc<Self>) {
        let state = self.state();
        if state.lease.is_lingering() {
            self.handle(state, Event::Release { awaited: false });
        }
    }

    fn release(grant: &Arc<ActiveLease>) {
        grant.release(false);
    }
}
