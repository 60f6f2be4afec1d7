//! Carries out the actions that the algorithm of a lease decides.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Waker,
};

use super::{
    active::ActiveLease,
    grants::Grant,
    scratch,
    shared::{LeaseReport, LeaseState, LossKind, SharedLease},
};
use crate::{
    error::{LockError, LossCause, ReleaseError, VoteOutcome},
    lock::{
        attempts::AttemptOutcome, overrun::OverrunWatch, released::Released, settings::Plan,
        stall::StallWatch,
    },
    node::{Reply, ReplySink},
    protocol::{AcquireOp, ExtendOp, Op, OpId, RaiseOp},
    quorum::{Action, LeaseCommand, Loss, Refusal, ReleaseVerdict},
    sync::{Guard, atomic::Ordering},
    time::{Nudge, Timestamp},
    token::block_end,
};

impl SharedLease {
    pub(super) fn carry_out<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, LeaseState>,
        mut actions: Vec<Action>,
        now: Timestamp,
    ) {
        let (mut wakers, mut orphans, mut overran) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ticket, mut decision) = (None, None);
        let (mut report, mut nudge) = (LeaseReport::default(), Nudge::default());
        let (mut is_renewed, mut is_ending) = (false, false);
        for action in actions.drain(..) {
            let notifies = match action {
                Action::Send { node, command } => {
                    let is_release = self.enqueue(&mut state, node, command);
                    is_ending |= is_release;
                    is_release
                }
                Action::Orphaned { node } => {
                    orphans.push(node);
                    false
                }
                Action::Renewing => {
                    report.renewing = true;
                    false
                }
                Action::Acquired { token, until } => {
                    report.raised = (token != self.proposal).then_some(token);
                    self.acquired(&mut state, token, (now, until));
                    decision = Some(Ok(()));
                    false
                }
                Action::Refused(refusal) => {
                    decision = Some(Err(refusal));
                    false
                }
                Action::Renewed { until } => {
                    is_renewed = true;
                    Self::set_valid_until(&state, until);
                    for grant in state.grants.each() {
                        grant.renewals += 1;
                        grant.take_renewal_watchers(&mut wakers);
                    }
                    report.renewed = true;
                    false
                }
                Action::Extended(Ok(())) => {
                    state.grants.each().for_each(|grant| grant.extension = Some(Ok(())));
                    true
                }
                Action::Extended(Err(votes)) => {
                    report.not_extended = Some(votes);
                    true
                }
                Action::Lost(loss) => {
                    overran = self.lose(&mut state, loss, &mut report);
                    is_ending = true;
                    ticket = state.ticket.take();
                    true
                }
                Action::Released(verdict) => {
                    report.not_released = Self::released(&mut state, verdict).err();
                    true
                }
            };
            if notifies {
                state.grants.each().for_each(|grant| grant.watchers.take(&mut wakers));
            }
        }
        if is_ending {
            state.grants.each().for_each(|grant| self.end_checks(grant, &mut wakers));
        }
        scratch::keep_actions(actions);
        if !report.is_empty() {
            // Reports come before the outbox, because a node may answer within the call.
            state = self.send_report(state, report, &mut wakers);
        }
        if !state.sending {
            state = self.send_outbox(state);
            nudge = self.arm(&mut state, now);
            // `ticket` is the turn that a loss ended. It must not be dropped under the mutex, and
            // the holder may have gone while the loss was logged.
            if state.is_given_back() && ticket.is_none() {
                ticket = state.ticket.take();
            }
        }
        let is_over = decision.is_some() || state.grants.current.holder_gone;
        let permit = is_over.then(|| state.permit.take()).flatten();
        drop(state);
        self.client.timers.nudge(nudge);
        if let Some(permit) = permit {
            permit.end(self.outcome(decision.as_ref(), now));
        }
        // A grant may take effect until the end of the patience, and its TTL starts then.
        let longest = self.plan.ttl + self.patience() * 2;
        for node in orphans {
            self.client.repeaters.repeat(node, &self.id, self.client.now() + longest);
        }
        drop(ticket);
        for (lease, poll, ended) in overran {
            let Plan { on_overrun, slack, .. } = *lease.plan();
            OverrunWatch::start(&lease, poll, on_overrun, ended, slack);
        }
        if let Some(decision) = decision {
            self.announce(decision.map_err(|refusal| self.refused(refusal)), &mut wakers);
        }
        crate::sync::wake_all(wakers);
        if is_renewed {
            self.readmit();
        }
    }

    /// Records the first grant.
    fn acquired(&self, state: &mut LeaseState, token: u64, (now, until): (Timestamp, Timestamp)) {
        self.token.store(token, Ordering::Release);
        if let Some(lease) = state.grants.current.lease.upgrade() {
            lease.token.store(token, Ordering::Release);
            if self.id.is_shared() {
                state.grants.begin_hold(&lease);
            }
        }
        Self::set_valid_until(state, until);
        (state.granted, state.grants.current.held_since) = (Some(now), Some(now));
    }

    /// Adds a command to the outbox. Returns whether it is the release, which ends the grant.
    fn enqueue(&self, state: &mut LeaseState, node: usize, command: LeaseCommand) -> bool {
        if state.outbox.capacity() == 0 {
            state.outbox = scratch::commands();
        }
        state.outbox.push((node, command));
        let is_release = command == LeaseCommand::Release;
        if is_release {
            // The request tries again, and its holder's release wakes all others.
            let goes_on = self.plan.awaits_release()
                && state.granted.is_none()
                && !state.grants.current.holder_gone;
            if goes_on && state.lease.is_refused_after_lead() {
                self.id.wake_none();
            }
            self.client.releasing.fetch_add(1, Ordering::AcqRel);
            state.grants.each().for_each(|grant| grant.over = true);
            state.grants.end_holds();
            self.mark_ended(state);
        }
        is_release
    }

    /// Sets the result of the release, or returns the votes if it failed.
    fn released(state: &mut LeaseState, verdict: ReleaseVerdict) -> Result<(), Vec<VoteOutcome>> {
        let released = match verdict {
            ReleaseVerdict::Released => Released::Released,
            ReleaseVerdict::AlreadyLost => Released::AlreadyLost,
            ReleaseVerdict::NoQuorum { votes } => return Err(votes),
        };
        state.grants.each().for_each(|grant| grant.released = Some(Ok(released)));
        Ok(())
    }

    /// Publishes the end of the validity.
    fn set_valid_until(state: &LeaseState, until: Timestamp) {
        for grant in state.grants.iter().filter(|grant| !grant.is_over() && !grant.holder_gone) {
            if let Some(lease) = grant.lease.upgrade() {
                let until = until.min(lease.own_end());
                lease.valid_until.store(until.as_nanos(), Ordering::Release);
            }
        }
    }

    /// Logs and counts changes, with the state unlocked, then sets the results that need votes.
    fn send_report<'a>(
        &'a self,
        state: Guard<'a, LeaseState>,
        mut report: LeaseReport,
        wakers: &mut Vec<Waker>,
    ) -> Guard<'a, LeaseState> {
        let nth = state.grants.current.nth;
        drop(state);
        report.send(&self.client, &self.id);
        let concerns_watchers = report.concerns_watchers();
        let not_extended = report.not_extended.map(|votes| self.client.votes(votes));
        let not_released = report.not_released.map(|votes| self.client.votes(votes));
        let mut state = self.state();
        if (state.grants.current.nth != nth && !self.id.is_shared()) || !concerns_watchers {
            return state;
        }
        for grant in state.grants.each() {
            if let Some((cause, _)) = &report.lost
                && !matches!(grant.loss.as_deref(), Some(LossCause::MaxHold { .. }))
            {
                grant.loss = Some(Box::new(cause.clone()));
            }
            if let Some(votes) = &not_extended {
                grant.extension = Some(Err(Box::new(LockError::NoQuorum { votes: votes.clone() })));
            }
            if let Some(votes) = &not_released {
                let error = ReleaseError::NoQuorum { votes: votes.clone() };
                grant.released = Some(Err(Box::new(error)));
            }
            // Tasks may have registered again meanwhile.
            grant.watchers.take(wakers);
        }
        state
    }

    /// Sends the commands in the outbox, one thread at a time. Another thread, or an answer within
    /// the call to a node, adds to the outbox only.
    fn send_outbox<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, LeaseState>,
    ) -> Guard<'a, LeaseState> {
        state.sending = true;
        while !state.outbox.is_empty() {
            let mut outbox = std::mem::take(&mut state.outbox);
            drop(state);
            for (node, command) in outbox.drain(..) {
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
            scratch::keep_commands(outbox);
            state = self.state();
        }
        state.sending = false;
        state
    }

    fn op(&self, command: LeaseCommand) -> (Op, OpId) {
        let lease = Arc::clone(&self.id);
        let (ttl, patience) = (self.plan.ttl, self.patience());
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
                (Op::Extend(ExtendOp { lease, ttl, token, until, patience }), OpId::Extend(started))
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

    /// Ends the grants at once. Returns the polls that are under way, and the end of the validity from
    /// which on each is an overrun.
    fn lose(
        &self,
        state: &mut LeaseState,
        loss: Loss,
        report: &mut LeaseReport,
    ) -> Vec<(Arc<ActiveLease>, u64, Timestamp)> {
        let mut overran = Vec::new();
        // The maximum hold time of a shared grant may have been reached before.
        let is_lost = |grant: &&mut Grant| grant.loss.is_none();
        let invalidate = |grant: &mut Grant| {
            let lease = grant.lease.upgrade()?;
            let ended = self.invalidate(&lease, &loss);
            let (poll, _) = lease.poll_under_way()?;
            Some((lease, poll, ended))
        };
        overran.extend(state.grants.each().filter(is_lost).filter_map(invalidate));
        state.grants.end_holds();
        for grant in state.grants.each().filter(is_lost) {
            grant.loss = Some(Box::new(self.lost(loss.clone(), grant.plan(&self.plan))));
        }
        let plan = state.grants.current.plan(&self.plan);
        let cause = self.lost(loss, plan);
        let kind = if state.is_kept() {
            LossKind::AfterWork
        } else if matches!(cause, LossCause::MaxHold { .. }) || !plan.auto_extend {
            LossKind::Planned
        } else {
            LossKind::Unexpected
        };
        report.lost = Some((cause, kind));
        // A jump of a server's clock moves the end into the past.
        if !report.renewed {
            report.late = self.client.now().saturating_duration_since(state.lease.end());
        }
        overran
    }

    /// Invalidates the holder's grant, and returns the end of its validity, which lies ahead after
    /// an early hard stop.
    fn invalidate(&self, lease: &ActiveLease, loss: &Loss) -> Timestamp {
        let is_due = !matches!(loss, Loss::Stolen { .. } | Loss::ClockJumped { .. });
        let end = lease.valid_until();
        let ended = if is_due { end } else { end.min(self.client.clock().now()) };
        // Stored before the zero, so that a thread that reads the zero sees the end.
        lease.ended.store(ended.as_nanos(), Ordering::SeqCst);
        lease.valid_until.store(0, Ordering::SeqCst);
        ended
    }

    /// Reports a decision to the local line, then to its watchers. The task of the request does not
    /// do it, because it may be busy.
    pub(super) fn announce(
        self: &Arc<Self>,
        decision: Result<(), LockError>,
        wakers: &mut Vec<Waker>,
    ) {
        let (ticket, lease, is_verdict) = {
            let mut state = self.state();
            // The answer of a lead node alone is not a verdict.
            let is_verdict = !state.lease.refused_by_lead();
            state.grants.turn_to(0);
            (state.ticket.take(), state.grants.current.lease.upgrade(), is_verdict)
        };
        match (&decision, &lease, &ticket) {
            (Ok(()), Some(lease), ticket) => {
                StallWatch::start(lease);
                if let Some(ticket) = ticket {
                    // From now on requests of other processes for the name reach the lease.
                    let has_waiters = ticket.holding(self);
                    self.record_earlier_ask();
                    if has_waiters {
                        ticket.answer(self);
                    }
                }
            }
            (Err(error), _, Some(ticket)) if is_verdict => ticket.report(error),
            _ => {}
        }
        let mut state = self.state();
        if state.grants.turn_to(0) {
            state.grants.current.decision = Some(decision.map_err(Box::new));
        }
        state.announced = true;
        // A thread that is sending ends the turn after it sent the release. A shared grant may have
        // reached its own end beside others.
        let is_lost = state.grants.current.loss.is_some() && !state.grants.is_held();
        let gone = (state.grants.current.holder_gone && !state.sending) || is_lost;
        let unwanted = if gone { ticket } else { std::mem::replace(&mut state.ticket, ticket) };
        state.grants.current.watchers.take(wakers);
        drop(state);
        drop(unwanted);
        self.readmit();
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

    /// Sets the timer, unless an earlier one is set: the lease sets the next one when the earlier
    /// one fires.
    pub(super) fn arm(self: &Arc<Self>, state: &mut LeaseState, now: Timestamp) -> Nudge {
        let timers = &self.client.timers;
        let mut wanted = state.lease.next_wake();
        if state.grants.is_held() {
            // The lead depends on the current lateness of timers, so it is read again near the end.
            let check = Some(self.stop_at(state, timers.max_lead())).filter(|at| now < *at);
            let mut at = check.unwrap_or_else(|| self.stop_at(state, timers.lead()));
            if let Some((first, _)) = state.grants.hold_ends() {
                at = at.min(first.saturating_sub(timers.lead()));
            }
            if let Some(reopens_at) =
                self.reopens_at().filter(|at| self.id.is_shared() && now < *at)
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
