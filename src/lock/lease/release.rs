//! The release of a grant: to the next waiter of this process, to a linger, or to the nodes.
//!
//! # Linger
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

use std::{sync::Arc, time::Duration};

use super::{
    active::ActiveLease,
    grants::Grant,
    local::{LeaseState, LocalLease},
    other_requests::LingerPhase,
    signals::GrantSignals,
};
use crate::{
    lock::{queue::HandedOn, released::Released, settings::Plan, stall::StallWatch},
    metrics,
    protocol::WAIT_MARK_TTL,
    quorum::{Event, NextHolder},
    resource::Resource,
    sync::{Guard, atomic::Ordering},
    time::Timestamp,
    token::BLOCK,
};

/// Maximum time for which hand-offs keep a lease. Then it returns to the nodes, which know whether
/// other processes wait.
const HAND_OFF_PERIOD: Duration = Duration::from_millis(100);

/// Time after which a lease that has had 256 holders ([`BLOCK`]) returns to the nodes.
const LONGEST_STAY: Duration = Duration::from_secs(1);

impl ActiveLease {
    /// Releases the grant: to the next waiter of this process if possible, else to the nodes, after
    /// all that was sent before. Then the turn in the local line passes on.
    pub(crate) fn release(&self, awaited: bool) {
        let now = self.now();
        let Some(mut state) = self.state().filter(|state| state.grants.current.has_holder()) else {
            return;
        };
        let hold = self.local.leave(&mut state, now);
        let report =
            || hold.held_for.into_iter().for_each(|time| metrics::held(self.is_shared(), time));
        if self.is_shared() {
            state = match self.local.leave_others(state, hold.was_over, now) {
                Ok(()) => return report(),
                Err(state) => state,
            };
        }
        let Some(HandedOn { lease, waker, left }) = self.local.hand_on(&mut state, now) else {
            if let Err(state) = self.local.linger(state, now) {
                self.local.give_back(state, awaited, now);
            }
            return report();
        };
        let next = Grant::held(Arc::clone(lease.signals()), now);
        let mut former = std::mem::replace(&mut state.grants.current, next);
        let mut wakers = Vec::new();
        former.watchers.take(&mut wakers);
        self.local.end_checks(&mut former, &mut wakers);
        let nudge = self.local.arm_later(&mut state, now);
        drop(state);
        drop(former);
        self.timers().nudge(nudge);
        report();
        left.update_gauge();
        crate::log::debug!(resource = %self.resource(), "handed on");
        StallWatch::start(&lease);
        crate::sync::wake_all(wakers);
        crate::sync::wake(waker);
    }
}

/// The end of the use of a grant by its holder.
pub(super) struct EndedHold {
    /// Time for which it was held, if it was.
    pub(super) held_for: Option<Duration>,
    /// Whether it was lost, or its release was decided, before.
    was_over: bool,
}

impl LocalLease {
    /// Ends the use of the current grant by its holder.
    pub(super) fn leave(&self, state: &mut LeaseState, now: Timestamp) -> EndedHold {
        let left = state.grants.current.leave();
        let signals = Arc::clone(&state.grants.current.signals);
        if self.id.is_shared() {
            state.grants.end_hold(&signals);
        }
        let held_for = left.held_since.map(|since| now.saturating_duration_since(since));
        if let Some(time) = held_for {
            self.client.hold_times.record(self.resource(), time);
        }
        // The next holder must not overlap with users of this handle.
        signals.release();
        EndedHold { held_for, was_over: left.was_over }
    }

    /// Releases the lease to the nodes.
    fn give_back<'a>(
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
        let mut actions = Vec::new();
        state.lease.handle(Event::Release { awaited }, now, &mut actions);
        self.carry_out(state, actions, now);
    }

    /// Gives the lease to the first waiter in line. Returns `None`, without a change, if the lease
    /// has to go back to the nodes.
    fn hand_on(self: &Arc<Self>, state: &mut LeaseState, now: Timestamp) -> Option<HandedOn> {
        if self.id.is_shared() {
            return None;
        }
        let signals = Arc::clone(&state.grants.current.signals);
        let nth = signals.nth + 1;
        let limit = self.client.settings.bounds.handoff_limit;
        let is_short = nth <= limit
            && state
                .granted
                .is_some_and(|since| now.saturating_duration_since(since) < HAND_OFF_PERIOD);
        let lingers = || limit > 0 && !signals.plan.linger.is_zero() && self.is_unwanted();
        if !(is_short || lingers()) || !self.may_stay(state, now) {
            return None;
        }
        let ticket = state.turn.announced()?;
        let lease = &mut state.lease;
        let in_turn = |nth, in_line| self.client.wakeups.is_in_turn(self.resource(), nth, in_line);
        let mut make = |plan: &Arc<Plan>| {
            let next = NextHolder { max_hold: plan.max_hold, auto_extend: plan.auto_extend };
            let hand_off = lease.hand_on(next, now)?;
            self.token.store(hand_off.token, Ordering::Release);
            Some(ActiveLease::of(self, GrantSignals::new(nth, plan, now, Some(hand_off))))
        };
        let handed = ticket.hand_on(self.plan.ttl, |at_grant| in_turn(nth, at_grant), &mut make);
        // All slots of the process serve its line, so for other processes the time counts, as in a second
        // pass of the line.
        let slot = self.resource().slot().filter(|_| handed.is_none());
        let to_any = slot.and_then(|(number, name)| {
            ticket.hand_on_slot(number, name, self.plan.ttl, || in_turn(1, 1), make)
        });
        handed.or(to_any)
    }

    /// Returns whether no other process wants the lease: the nodes would have reported a refused
    /// request.
    fn is_unwanted(&self) -> bool {
        self.id.lingers()
            && !self.others.was_asked()
            && self.client.remote_requests.has_reports_since(self.started)
    }

    /// Returns whether the lease may go to another holder of this process.
    fn may_stay(&self, state: &LeaseState, now: Timestamp) -> bool {
        state.turn.announced().is_some()
            // Records identify holders by the lease's nonce.
            && !state.grants.current.signals.plan.keeps_records
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
        u64::from(state.grants.current.signals.nth) + 1 >= BLOCK
            && now.saturating_duration_since(since) >= LONGEST_STAY
    }

    /// Keeps the lease, whose holder is releasing it, for the next request of this process. Returns
    /// the state if the lease has to be released to the nodes.
    fn linger<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, LeaseState>,
        now: Timestamp,
    ) -> Result<(), Guard<'a, LeaseState>> {
        let signals = Arc::clone(&state.grants.current.signals);
        let Plan { linger, .. } = *signals.plan;
        // Runs under the mutex of the lines: a shutdown closes the manager, then locks that mutex.
        let begin = || {
            let is_counted = self.others.linger_phase() != LingerPhase::Never;
            let may_begin =
                !self.client.is_closed() && (is_counted || self.client.remote_requests.enter());
            if may_begin {
                self.others.set_linger_phase(LingerPhase::Lingers);
            }
            may_begin
        };
        let is_kept = !linger.is_zero()
            && self.is_unwanted()
            && self.may_stay(&state, now)
            && self.client.wakeups.is_in_turn(self.resource(), signals.nth + 1, 1)
            && state.lease.linger(now + linger, now)
            && state.turn.announced().is_some_and(|ticket| ticket.keep_if(begin));
        if !is_kept {
            return Err(state);
        }
        let grant = &mut state.grants.current;
        grant.set_released(Ok(Released::Released));
        let mut wakers = Vec::new();
        grant.watchers.take(&mut wakers);
        self.end_checks(grant, &mut wakers);
        let nudge = self.arm_later(&mut state, now);
        drop(state);
        self.client.timers.nudge(nudge);
        crate::sync::wake_all(wakers);
        Ok(())
    }

    /// Records that the lease, whose release is decided, does not linger any more: requests of this
    /// process wait for its turn as for an attempt.
    pub(super) fn mark_ended(&self, state: &LeaseState) {
        let phase = self.others.linger_phase();
        if phase == LingerPhase::Never {
            return;
        }
        self.client.remote_requests.leave();
        let end = || self.others.set_linger_phase(LingerPhase::Never);
        if phase != LingerPhase::Lingers {
            return end();
        }
        self.client.wakeups.returning(self.resource(), self.started, self.client.now());
        // Ended at once, for requests that join the lines.
        match state.turn.ticket() {
            Some(ticket) => ticket.report_linger_end(end),
            None => debug_assert!(false, "a lease that lingers has its turn"),
        }
    }

    /// Ends the linger, or closes a shared lease to further requests for a time, because another process
    /// was refused the lease.
    pub(crate) fn asked(self: &Arc<Self>, at: Timestamp) {
        if self.id.is_shared() {
            self.close_until(at + WAIT_MARK_TTL);
        } else {
            self.others.ask(at);
            self.end_linger();
        }
    }

    /// Records a request of another process that came before the grant was reported to the local line.
    pub(super) fn record_earlier_ask(self: &Arc<Self>) {
        let from = self.others.asked_from;
        if let Some(at) = self.client.remote_requests.asked_since(self.resource(), from) {
            self.asked(at);
        }
    }

    /// Takes over the lease, which lingers. If that is not possible, releases a lingering lease and
    /// returns `None`. Must not be called with a mutex locked.
    pub(crate) fn take_over(
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
        self.others.set_linger_phase(LingerPhase::TakenOver);
        self.token.store(hand_off.token, Ordering::Release);
        let nth = state.grants.current.signals.nth + 1;
        let lease = ActiveLease::of(self, GrantSignals::new(nth, plan, now, Some(hand_off)));
        let next = Grant::held(Arc::clone(lease.signals()), now);
        let former = std::mem::replace(&mut state.grants.current, next);
        let nudge = self.arm_later(&mut state, now);
        drop(state);
        drop(former);
        self.client.timers.nudge(nudge);
        metrics::taken_over();
        crate::log::debug!(resource = %self.resource(), "taken over");
        StallWatch::start(&lease);
        Some(lease)
    }

    /// Releases the lease if it lingers. Must not be called with a mutex locked.
    pub(crate) fn end_linger(self: &Arc<Self>) {
        let state = self.state();
        if state.lease.is_lingering() {
            self.handle(state, Event::Release { awaited: false });
        }
    }

    /// Returns whether it lingers.
    pub(crate) fn is_lingering(&self) -> bool {
        self.others.linger_phase() == LingerPhase::Lingers
    }
}
