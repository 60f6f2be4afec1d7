//! Carries out the actions that the algorithm of a lease decides.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Waker,
};

use super::{
    active::ActiveLease,
    grants::Grant,
    local::{LeaseState, LocalLease},
    report::{LeaseReport, LossKind},
    signals::{GrantSignals, WorkFlag},
};
use crate::{
    error::{LockError, LossCause, ReleaseError, VoteOutcome},
    lock::{
        attempts::AttemptOutcome, overrun::OverrunWatch, queue::Ticket, released::Released,
        settings::Plan, stall::StallWatch,
    },
    node::{Reply, ReplySink},
    protocol::{AcquireOp, ExtendOp, Op, OpId, RaiseOp},
    quorum::{Action, LeaseCommand, Loss, Refusal, ReleaseVerdict},
    sync::{Guard, atomic::Ordering},
    time::{Nudge, Timestamp},
    token::block_end,
};

/// What follows from actions once the state is unlocked.
#[derive(Default)]
struct Effects {
    wakers: Vec<Waker>,
    /// The nodes whose release must be repeated.
    orphans: Vec<usize>,
    overran: Vec<OverranPoll>,
    /// The turn that a loss or a release ended. It passes on, which locks the lines.
    ended_turn: Option<Ticket>,
    decision: Option<Result<(), Refusal>>,
    report: LeaseReport,
    is_renewed: bool,
    /// Whether a grant has ended.
    is_ending: bool,
}

/// A poll that was under way when its grant ended.
pub(super) struct OverranPoll {
    signals: Arc<GrantSignals>,
    poll: u64,
    /// End of the validity, which may lie ahead after an early hard stop.
    ended: Timestamp,
}

impl LocalLease {
    pub(super) fn carry_out<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, LeaseState>,
        actions: Vec<Action>,
        now: Timestamp,
    ) {
        let mut effects = Effects::default();
        for action in actions {
            if self.apply(&mut state, action, now, &mut effects) {
                state.grants.each().for_each(|grant| grant.watchers.take(&mut effects.wakers));
            }
        }
        if effects.is_ending {
            state.grants.each().for_each(|grant| self.end_checks(grant, &mut effects.wakers));
        }
        if !effects.report.is_empty() {
            // Reports come before the outbox, because a node may answer within the call.
            state = self.send_report(state, &mut effects);
        }
        let mut nudge = Nudge::default();
        if !state.outbox.is_sending() {
            state = self.send_outbox(state);
            nudge = self.arm(&mut state, now);
            // A ticket must not be dropped under the mutex. The holder may have gone while a loss was logged.
            if state.is_given_back() && effects.ended_turn.is_none() {
                effects.ended_turn = state.turn.take();
            }
        }
        let is_over = effects.decision.is_some() || !state.grants.current.has_holder();
        let permit = is_over.then(|| state.permit.take()).flatten();
        drop(state);
        self.client.timers.nudge(nudge);
        if let Some(permit) = permit {
            permit.end(self.outcome(effects.decision.as_ref(), now));
        }
        self.finish(effects);
    }

    /// Applies an action to the state. Returns whether it notifies the watchers of the grants.
    fn apply(
        self: &Arc<Self>,
        state: &mut LeaseState,
        action: Action,
        now: Timestamp,
        effects: &mut Effects,
    ) -> bool {
        match action {
            Action::Send { node, command } => {
                state.outbox.push(node, command);
                let is_release = command == LeaseCommand::Release;
                if is_release {
                    self.begin_release(state);
                    effects.is_ending = true;
                }
                return is_release;
            }
            Action::Orphaned { node } => effects.orphans.push(node),
            Action::Renewing => effects.report.renewing = true,
            Action::Acquired { token, until } => {
                effects.report.raised = (token != self.proposal).then_some(token);
                self.acquired(state, token, now, until);
                effects.decision = Some(Ok(()));
            }
            Action::Refused(refusal) => effects.decision = Some(Err(refusal)),
            Action::Renewed { until } => {
                effects.is_renewed = true;
                Self::set_valid_until(state, until);
                for grant in state.grants.each() {
                    grant.renewals.count += 1;
                    grant.take_renewal_watchers(&mut effects.wakers);
                }
                effects.report.renewed = true;
            }
            Action::Extended(Ok(())) => {
                state.grants.each().for_each(|grant| grant.extension = Some(Ok(())));
                return true;
            }
            Action::Extended(Err(votes)) => {
                effects.report.not_extended = Some(votes);
                return true;
            }
            Action::Lost(loss) => {
                self.lose(state, loss, effects);
                effects.is_ending = true;
                effects.ended_turn = state.turn.take();
                return true;
            }
            Action::Released(verdict) => {
                effects.report.not_released = Self::released(state, verdict).err();
                return true;
            }
        }
        false
    }

    /// Does what must not be done with the state locked.
    fn finish(self: &Arc<Self>, mut effects: Effects) {
        // A grant may take effect until the end of `max_delay`, and its TTL starts then.
        let longest = self.plan.ttl + self.max_delay() * 2;
        for node in effects.orphans {
            self.client.repeaters.repeat(node, &self.id, self.client.now() + longest);
        }
        drop(effects.ended_turn);
        for overran in effects.overran {
            self.watch_overrun(overran);
        }
        if let Some(decision) = effects.decision {
            let decision = decision.map_err(|refusal| self.refused(refusal));
            self.announce(decision, &mut effects.wakers);
        }
        crate::sync::wake_all(effects.wakers);
        if effects.is_renewed {
            self.readmit();
        }
    }

    /// Records the first grant.
    fn acquired(&self, state: &mut LeaseState, token: u64, now: Timestamp, until: Timestamp) {
        self.token.store(token, Ordering::Release);
        state.granted = Some(now);
        let grant = &mut state.grants.current;
        grant.begin_hold(now);
        grant.signals.set_token(token);
        if self.id.is_shared() {
            let signals = Arc::clone(&grant.signals);
            state.grants.begin_hold(&signals);
        }
        Self::set_valid_until(state, until);
    }

    /// Records that the release is sent, which ends the grants.
    fn begin_release(&self, state: &mut LeaseState) {
        // The request tries again, and its holder's release wakes all others.
        let goes_on = self.plan.awaits_release()
            && state.granted.is_none()
            && state.grants.current.has_holder();
        if goes_on && state.lease.is_refused_after_lead() {
            self.id.wake_none();
        }
        self.client.releasing.fetch_add(1, Ordering::AcqRel);
        state.grants.each().for_each(Grant::end);
        state.grants.end_holds();
        self.mark_ended(state);
    }

    /// Sets the result of the release, or returns the votes if it failed.
    fn released(state: &mut LeaseState, verdict: ReleaseVerdict) -> Result<(), Vec<VoteOutcome>> {
        let released = match verdict {
            ReleaseVerdict::Released => Released::Released,
            ReleaseVerdict::AlreadyLost => Released::AlreadyLost,
            ReleaseVerdict::NoQuorum { votes } => return Err(votes),
        };
        state.grants.each().for_each(|grant| grant.set_released(Ok(released)));
        Ok(())
    }

    /// Publishes the end of the validity.
    fn set_valid_until(state: &LeaseState, until: Timestamp) {
        for grant in state.grants.iter().filter(|grant| grant.is_held()) {
            grant.signals.set_valid_until(until);
        }
    }

    /// Logs and counts changes, with the state unlocked, then sets the results that need votes.
    fn send_report<'a>(
        &'a self,
        state: Guard<'a, LeaseState>,
        effects: &mut Effects,
    ) -> Guard<'a, LeaseState> {
        let nth = state.grants.current.signals.nth;
        drop(state);
        let report = &mut effects.report;
        report.send(&self.client, &self.id);
        let concerns_watchers = report.concerns_watchers();
        let not_extended = report.not_extended.take().map(|votes| self.client.votes(votes));
        let not_released = report.not_released.take().map(|votes| self.client.votes(votes));
        let mut state = self.state();
        let is_handed_on = state.grants.current.signals.nth != nth && !self.id.is_shared();
        if is_handed_on || !concerns_watchers {
            return state;
        }
        for grant in state.grants.each() {
            if let Some((cause, _)) = &report.lost {
                grant.explain_loss(cause);
            }
            if let Some(votes) = &not_extended {
                grant.extension = Some(Err(Box::new(LockError::NoQuorum { votes: votes.clone() })));
            }
            if let Some(votes) = &not_released {
                let error = ReleaseError::NoQuorum { votes: votes.clone() };
                grant.set_released(Err(Box::new(error)));
            }
            // Tasks may have registered again meanwhile.
            grant.watchers.take(&mut effects.wakers);
        }
        state
    }

    /// Sends the commands in the outbox, one thread at a time. Another thread, or an answer within
    /// the call to a node, adds to the outbox only.
    fn send_outbox<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, LeaseState>,
    ) -> Guard<'a, LeaseState> {
        state.outbox.begin_sending();
        while let Some(commands) = state.outbox.take() {
            drop(state);
            for (node, command) in commands {
                let send = || {
                    let (op, id) = self.op(command);
                    let sink = Arc::clone(self) as Arc<dyn ReplySink>;
                    self.client.nodes[node].send(op, Reply::to_lease(sink, node, id));
                };
                // A panic drops the reply, which counts as an unknown answer.
                if catch_unwind(AssertUnwindSafe(send)).is_err() {
                    let node = self.client.node_name(node);
                    crate::log::error!(%node, "node panicked in send");
                }
            }
            state = self.state();
        }
        state
    }

    fn op(&self, command: LeaseCommand) -> (Op, OpId) {
        let lease = Arc::clone(&self.id);
        let (ttl, max_delay) = (self.plan.ttl, self.max_delay());
        match command {
            LeaseCommand::Acquire { token, expires } => {
                let block_end = block_end(token, self.block);
                let request = || self.mark.as_ref().map_or(&self.id, |mark| mark.id());
                let waiter = self.plan.awaits_release().then(|| Arc::clone(request()));
                let op = AcquireOp { lease, ttl, token, block_end, expires, waiter };
                (Op::Acquire(op), OpId::Acquire)
            }
            LeaseCommand::Raise { round, token } => {
                let block_end = block_end(token, self.block);
                self.client.fences.reserve(self.resource(), block_end);
                (Op::Raise(RaiseOp { lease, token, block_end }), OpId::Raise(round))
            }
            LeaseCommand::Extend { started, until } => {
                let token = self.token.load(Ordering::Acquire);
                (
                    Op::Extend(ExtendOp { lease, ttl, token, until, max_delay }),
                    OpId::Extend(started),
                )
            }
            LeaseCommand::Release => {
                // Marked only now, because commands before the release in the outbox had to be
                // sent.
                self.id.end();
                (Op::Release(lease), OpId::Release)
            }
        }
    }

    /// Returns the load of the nodes, as the decision shows it.
    fn outcome(&self, decision: Option<&Result<(), Refusal>>, now: Timestamp) -> AttemptOutcome {
        let took = now.saturating_duration_since(self.started);
        let node_timeout = self.plan.node_timeout;
        match decision {
            Some(Ok(()) | Err(Refusal::Held { .. })) if self.plan.lead_node.is_none() => {
                AttemptOutcome::Decided { took, node_timeout }
            }
            Some(Err(Refusal::NoQuorum { .. })) if took >= node_timeout => {
                AttemptOutcome::TimedOut { node_timeout }
            }
            _ => AttemptOutcome::Unknown,
        }
    }

    /// Ends the grants at once.
    fn lose(&self, state: &mut LeaseState, loss: Loss, effects: &mut Effects) {
        // All work has ended, and the lease was kept for what follows from it.
        let is_kept = state.grants.iter().all(|grant| grant.signals.has_flag(WorkFlag::Kept));
        let is_due = !matches!(loss, Loss::Stolen { .. } | Loss::ClockJumped { .. });
        // A shared grant may have reached its own maximum hold time before.
        for grant in state.grants.each().filter(|grant| grant.is_held()) {
            let end = grant.signals.valid_until();
            let ended = if is_due { end } else { end.min(self.client.clock().now()) };
            effects.overran.extend(Self::end_early(&grant.signals, ended));
            grant.lose(self.lost(loss.clone(), &grant.signals.plan));
        }
        state.grants.end_holds();
        let plan = &state.grants.current.signals.plan;
        let cause = self.lost(loss, plan);
        let kind = if is_kept {
            LossKind::AfterWork
        } else if matches!(cause, LossCause::MaxHold { .. }) || !plan.auto_extend {
            LossKind::Planned
        } else {
            LossKind::Unexpected
        };
        effects.report.lost = Some((cause, kind));
        // A jump of a server's clock moves the end into the past.
        if !effects.report.renewed {
            effects.report.late = self.client.now().saturating_duration_since(state.lease.end());
        }
    }

    /// Ends the validity of a grant, which ended or would have ended at `ended`. Returns the poll that is
    /// under way.
    pub(super) fn end_early(signals: &Arc<GrantSignals>, ended: Timestamp) -> Option<OverranPoll> {
        signals.lose(ended);
        let (poll, _) = signals.poll_under_way()?;
        Some(OverranPoll { signals: Arc::clone(signals), poll, ended })
    }

    /// Checks whether a poll continues after the end of the validity.
    pub(super) fn watch_overrun(self: &Arc<Self>, overran: OverranPoll) {
        let OverranPoll { signals, poll, ended } = overran;
        let Plan { overrun, slack, .. } = *signals.plan;
        let lease = ActiveLease::of(self, signals);
        OverrunWatch::start(&lease, poll, overrun, ended, slack);
    }

    /// Reports a decision to the local line, then to its watchers. The task of the request does not
    /// do it, because it may be busy.
    pub(super) fn announce(
        self: &Arc<Self>,
        decision: Result<(), LockError>,
        wakers: &mut Vec<Waker>,
    ) {
        let (ticket, signals, has_holder, is_verdict) = {
            let mut state = self.state();
            // The answer of a lead node alone is not a verdict.
            let is_verdict = !state.lease.refused_by_lead();
            state.grants.turn_to(0);
            let grant = &state.grants.current;
            let (signals, has_holder) = (Arc::clone(&grant.signals), grant.has_holder());
            (state.turn.begin_announcement(), signals, has_holder, is_verdict)
        };
        match &decision {
            Ok(()) if has_holder => {
                self.watch_stalls(&signals);
                if let Some(ticket) = &ticket {
                    // From now on requests of other processes for the name reach the lease.
                    let has_waiters = ticket.holding(self);
                    self.record_earlier_ask();
                    if has_waiters {
                        ticket.answer(self);
                    }
                }
            }
            Err(error) if is_verdict => {
                if let Some(ticket) = &ticket {
                    ticket.report(error);
                }
            }
            Ok(()) | Err(_) => {}
        }
        let mut state = self.state();
        if state.grants.turn_to(0) {
            state.grants.current.decision = Some(decision.map_err(Box::new));
        }
        let grant = &state.grants.current;
        // A shared grant may have reached its own end beside others.
        let is_lost = grant.loss().is_some() && !state.grants.is_held();
        // A thread that is sending ends the turn after it sent the release.
        let is_over = (!grant.has_holder() && !state.outbox.is_sending()) || is_lost;
        let (kept, ended) = if is_over { (None, ticket) } else { (ticket, None) };
        state.turn.end_announcement(kept);
        state.grants.current.watchers.take(wakers);
        drop(state);
        drop(ended);
        self.readmit();
    }

    /// Starts the stall checks of a grant, if its request wants them.
    fn watch_stalls(self: &Arc<Self>, signals: &Arc<GrantSignals>) {
        if StallWatch::is_wanted(&signals.plan) {
            StallWatch::start(&ActiveLease::of(self, Arc::clone(signals)));
        }
    }

    /// Ends the stall checks and the reports of renewals of a grant that is over.
    pub(super) fn end_checks(&self, grant: &mut Grant, wakers: &mut Vec<Waker>) {
        if !grant.is_over() {
            return;
        }
        grant.take_renewal_watchers(wakers);
        if let Some(key) = grant.stall_timer.take() {
            self.client.timers.remove(key);
        }
    }

    /// Sets the timer, unless a thread is sending, which sets it afterwards.
    pub(super) fn arm_later(self: &Arc<Self>, state: &mut LeaseState, now: Timestamp) -> Nudge {
        if state.outbox.is_sending() { Nudge::default() } else { self.arm(state, now) }
    }

    /// Sets the timer, unless an earlier one is set: the lease sets the next one when the earlier
    /// one fires.
    fn arm(self: &Arc<Self>, state: &mut LeaseState, now: Timestamp) -> Nudge {
        let timers = &self.client.timers;
        let mut wanted = state.lease.next_wake();
        if state.grants.is_held() {
            let mut at = Self::stop_at(state, timers.lead());
            if let Some((first, _)) = state.grants.hold_ends() {
                at = at.min(first.saturating_sub(timers.lead()));
            }
            if self.id.is_shared()
                && let Some(reopens_at) = self.others.closed_until().filter(|at| now < *at)
            {
                at = at.min(reopens_at);
            }
            wanted = wanted.map(|wanted| wanted.min(at));
        }
        if let (Some(at), Some(key)) = (wanted, state.timer)
            && key.at <= at
        {
            return Nudge::default();
        }
        if let Some(key) = state.timer.take() {
            timers.remove(key);
        }
        let Some(at) = wanted else { return Nudge::default() };
        let (key, nudge) = timers.insert_locked(at, Waker::from(Arc::clone(self)));
        state.timer = Some(key);
        nudge
    }
}
