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
    error::{LockError, LossCause, ReleaseError, VoteOutcome, Votes},
    lock::{
        attempts::Pace, core::Core, overrun::OverrunWatch, release::Released, settings::Plan,
        stall::StallWatch,
    },
    metrics,
    quorum::{Action, Command, Halt, Loss, Refusal, ReleaseVerdict},
    resource::Resource,
    sync::Guard,
    time::{Nudge, Timestamp},
};

/// So often a lease under the strict clock guard looks at the wall clock.
const WALL_LOOK: Duration = Duration::from_millis(250);

/// What became of a lease, told once its state is unlocked.
#[derive(Default)]
struct Told {
    renewed: bool,
    renewing: bool,
    /// Why, and whether that was planned.
    lost: Option<(LossCause, bool)>,
    /// Votes that are named when nothing is locked, as nodes are asked for that: of an extension
    /// and of a release that failed.
    not_extended: Option<Vec<VoteOutcome>>,
    not_released: Option<Vec<VoteOutcome>>,
}

impl Told {
    fn is_something(&self) -> bool {
        self.renewed
            || self.renewing
            || self.lost.is_some()
            || self.not_extended.is_some()
            || self.not_released.is_some()
    }

    /// Adds what is known of nodes that were not awaited.
    fn explain(&mut self, core: &Core) {
        if let Some((LossCause::Expired { votes } | LossCause::ClockJumped { votes }, _)) =
            &mut self.lost
        {
            *votes = core.explained(votes);
        }
    }

    fn tell(&self, resource: &Resource) {
        if self.renewed {
            metrics::renewed();
            crate::log::debug!(%resource, "renewed");
        }
        if self.renewing {
            crate::log::debug!(%resource, "renewing");
        }
        if let Some((cause, planned)) = &self.lost {
            metrics::lost(cause);
            if *planned {
                crate::log::debug!(%resource, %cause, "lock ended");
            } else {
                crate::log::warn!(%resource, %cause, "lock lost");
            }
        }
    }
}

impl SharedLease {
    pub(super) fn carry_out<'a>(
        self: &'a Arc<Self>,
        mut state: Guard<'a, State>,
        mut actions: Vec<Action>,
        now: Timestamp,
    ) {
        let mut wakers = Vec::new();
        let mut ticket = None;
        let mut orphans = Vec::new();
        let mut decision = None;
        let mut overran = None;
        let mut told = Told::default();
        let mut nudge = Nudge::default();
        for action in actions.drain(..) {
            match action {
                Action::Send { node, command } => {
                    self.note_round(&mut state, command);
                    state.outbox.push((node, command));
                    if command != Command::Release {
                        continue;
                    }
                    // Who watches for the end of the lease has it here.
                    self.core.releasing.fetch_add(1, Ordering::AcqRel);
                    state.grant.over = true;
                }
                Action::Orphaned { node } => {
                    orphans.push(node);
                    continue;
                }
                Action::Renewing => {
                    told.renewing = true;
                    continue;
                }
                Action::Acquired { token, until } => {
                    self.token.store(token, Ordering::Release);
                    self.set_wall_until(&mut state, self.started);
                    if let Some(lease) = state.grant.lease.upgrade() {
                        lease.token.store(token, Ordering::Release);
                        lease.valid_until.store(until.as_nanos(), Ordering::Release);
                    }
                    (state.granted, state.grant.held_since) = (Some(now), Some(now));
                    decision = Some(Ok(()));
                    continue;
                }
                Action::Refused(refusal) => {
                    decision = Some(Err(refusal));
                    continue;
                }
                Action::Renewed { until, counted_from } => {
                    self.set_wall_until(&mut state, counted_from);
                    if let Some(lease) = state.grant.lease.upgrade() {
                        lease.valid_until.store(until.as_nanos(), Ordering::Release);
                    }
                    state.grant.renewals += 1;
                    state.grant.renewal_watchers.take(&mut wakers);
                    told.renewed = true;
                    // Nobody waits for this: guarded work is not woken by every renewal.
                    continue;
                }
                Action::Extended(Ok(())) => state.grant.extension = Some(Ok(())),
                Action::Extended(Err(votes)) => told.not_extended = Some(votes),
                Action::Lost(loss) => {
                    overran = self.lose(&mut state, loss, &mut told);
                    ticket = state.ticket.take();
                }
                Action::Released(ReleaseVerdict::Released) => {
                    state.grant.released = Some(Ok(Released::Released));
                }
                Action::Released(ReleaseVerdict::AlreadyLost) => {
                    state.grant.released = Some(Ok(Released::AlreadyLost));
                }
                Action::Released(ReleaseVerdict::NoQuorum { votes }) => {
                    told.not_released = Some(votes);
                }
            }
            state.grant.watchers.take(&mut wakers);
        }
        self.end_looks(&mut state.grant, &mut wakers);
        state.spare = actions;
        if told.is_something() {
            // Before anything is sent: a node may answer within the call.
            state = self.tell(state, told, &mut wakers);
        }
        if !state.sending {
            state = self.send_outbox(state);
            nudge = self.arm(&mut state, now);
            // One that a loss took is not to be dropped here, under the lock: the holder may have gone
            // while the loss was logged.
            if state.grant.holder_gone && ticket.is_none() {
                ticket = state.ticket.take();
            }
        }
        let is_under_way = decision.is_none() && !state.grant.holder_gone;
        let permit = if is_under_way { None } else { state.permit.take() };
        drop(state);
        self.core.timers.nudge(nudge);
        if let Some(permit) = permit {
            permit.end(self.pace(decision.as_ref(), now));
        }
        self.release_again(orphans);
        drop(ticket);
        if let Some((lease, poll, ended)) = overran {
            let Plan { on_overrun, slack, .. } = lease.plan;
            OverrunWatch::start(&lease, poll, on_overrun, ended, slack);
        }
        if let Some(decision) = decision {
            self.announce(decision.map_err(|refusal| self.refused(refusal)), &mut wakers);
        }
        crate::sync::wake_all(wakers);
    }

    /// Repeats the release at nodes that did not acknowledge it.
    fn release_again(&self, orphans: Vec<usize>) {
        // The last grant may run as late as its patience allows; then the TTL starts.
        let longest = self.ttl + self.patience() * 2;
        for node in orphans {
            self.core.releaser.push(&self.core, node, Arc::clone(&self.id), longest);
        }
    }

    /// Tells what became of the lease, with its state unlocked meanwhile.
    fn tell<'a>(
        &'a self,
        state: Guard<'a, State>,
        mut told: Told,
        wakers: &mut Vec<Waker>,
    ) -> Guard<'a, State> {
        let nth = state.grant.nth;
        drop(state);
        told.explain(&self.core);
        told.tell(self.resource());
        let Told { lost, not_extended, not_released, .. } = told;
        let not_extended = not_extended.map(|votes| self.core.votes(votes));
        let not_released = not_released.map(|votes| self.core.votes(votes));
        let mut state = self.state();
        let is_for_watchers = lost.is_some() || not_extended.is_some() || not_released.is_some();
        let grant = &mut state.grant;
        if grant.nth != nth || !is_for_watchers {
            return state;
        }
        if let Some((cause, _)) = lost {
            grant.loss = Some(cause);
        }
        if let Some(votes) = not_extended {
            grant.extension = Some(Err(LockError::NoQuorum { votes }));
        }
        if let Some(votes) = not_released {
            grant.released = Some(Err(ReleaseError::NoQuorum { votes }));
        }
        // Somebody may have asked again meanwhile.
        grant.watchers.take(wakers);
        state
    }

    /// What a decision tells of the nodes' pace.
    fn pace(&self, decision: Option<&Result<(), Refusal>>, now: Timestamp) -> Pace {
        let took = now.since(self.started);
        match decision {
            Some(Ok(()) | Err(Refusal::Held { .. })) if took <= self.node_timeout / 4 => {
                Pace::Prompt
            }
            Some(Ok(()) | Err(Refusal::Held { .. })) if took <= self.node_timeout / 2 => {
                Pace::InTime
            }
            Some(Ok(()) | Err(Refusal::Held { .. })) => {
                Pace::Slow { node_timeout: self.node_timeout }
            }
            Some(Err(Refusal::NoQuorum { .. })) if took >= self.node_timeout => {
                Pace::TimedOut { node_timeout: self.node_timeout }
            }
            _ => Pace::Unknown,
        }
    }

    /// The grant is over at once; tells which poll goes on, if one does, and since when it overruns.
    fn lose(
        &self,
        state: &mut State,
        loss: Loss,
        told: &mut Told,
    ) -> Option<(Arc<ActiveLease>, u64, Timestamp)> {
        let lease = state.grant.lease.upgrade();
        let ended = lease.as_ref().map_or(Timestamp::ZERO, |lease| self.close(lease, &loss));
        let cause = self.lost(loss, &state.grant.plan);
        // An end that was planned is nobody's alarm.
        let planned = matches!(cause, LossCause::MaxHold { .. }) || !state.grant.plan.auto_extend;
        told.lost = Some((cause.clone(), planned));
        state.grant.loss = Some(cause);
        let lease = lease?;
        let (poll, _) = lease.poll_under_way()?;
        Some((lease, poll, ended))
    }

    /// Takes the validity from the holder, and returns its end: to come where the hard stop came
    /// before it.
    fn close(&self, lease: &ActiveLease, loss: &Loss) -> Timestamp {
        let is_due = !matches!(loss, Loss::Stolen { .. } | Loss::ClockJumped { .. });
        let end = lease.valid_until();
        let ended =
            if is_due && self.is_valid_by_wall() { end } else { end.min(self.core.clock().now()) };
        // Before the zero, which whoever reads it has seen.
        lease.ended.store(ended.as_nanos(), Ordering::SeqCst);
        lease.valid_until.store(0, Ordering::SeqCst);
        ended
    }

    /// Under the strict clock guard: keeps what the wall clock showed when a round was started.
    fn note_round(&self, state: &mut State, command: Command) {
        const ROUNDS: usize = 64;
        let Command::Extend { started, .. } = command else { return };
        if self.core.settings.clock_guard.is_none()
            || state.rounds.back().is_some_and(|(last, _)| *last == started)
        {
            return;
        }
        if state.rounds.len() == ROUNDS {
            state.rounds.pop_front();
        }
        state.rounds.push_back((started, self.core.clock().wall()));
    }

    /// The validity also ends by the wall clock, counted from the same round.
    fn set_wall_until(&self, state: &mut State, counted_from: Timestamp) {
        if self.core.settings.clock_guard.is_none() {
            return;
        }
        // A round that is not known any more is older than all that are.
        state.rounds.retain(|(started, _)| *started >= counted_from);
        let Some((_, wall)) = state.rounds.front() else { return };
        let until = (*wall + self.validity).as_micros();
        self.wall_until.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Tells the local line, then whoever waits for the decision: in this order, and from here, as
    /// the task that asked may not be polled for long.
    fn announce(self: &Arc<Self>, decision: Result<(), LockError>, wakers: &mut Vec<Waker>) {
        let (ticket, lease, is_verdict) = {
            let mut state = self.state();
            let is_verdict = !state.lease.refused_by_lead();
            (state.ticket.take(), state.grant.lease.upgrade(), is_verdict)
        };
        match (&decision, &lease) {
            (Ok(()), Some(lease)) => {
                StallWatch::start(lease, &lease.plan);
                if let Some(ticket) = &ticket {
                    ticket.holding(lease);
                }
            }
            (Ok(()), None) => {}
            (Err(error), _) => {
                // One node's word is told to nobody: the line goes by the verdict before.
                if let Some(ticket) = ticket.as_ref().filter(|_| is_verdict) {
                    ticket.report(error);
                }
            }
        }
        let mut state = self.state();
        state.grant.decision = Some(decision);
        state.announced = true;
        // Whoever is sending passes the turn on, behind the release.
        let gone = (state.grant.holder_gone && !state.sending) || state.grant.loss.is_some();
        let unwanted = if gone {
            ticket
        } else {
            state.ticket = ticket;
            None
        };
        state.grant.watchers.take(wakers);
        drop(state);
        drop(unwanted);
    }

    /// Once a grant is over: wakes who wants to know of renewals, and ends the looks.
    pub(super) fn end_looks(&self, grant: &mut Grant, wakers: &mut Vec<Waker>) {
        if !grant.is_over() {
            return;
        }
        grant.renewal_watchers.take(wakers);
        if let Some(key) = grant.stall_timer.take() {
            self.core.timers.remove(key);
        }
    }

    /// Sets the timer. One that fires too early is left alone: it looks again.
    pub(super) fn arm(self: &Arc<Self>, state: &mut State, now: Timestamp) -> Nudge {
        let mut wanted = state.lease.next_wake();
        if state.grant.is_held() {
            // How late timers fire is known best when the end is near: it is looked at first.
            let timers = &self.core.timers;
            let look = Some(Self::stop_at(state, timers.max_lead())).filter(|at| now < *at);
            let at = look.unwrap_or_else(|| Self::stop_at(state, timers.lead()));
            wanted = wanted.map(|wanted| wanted.min(at));
            if self.core.settings.clock_guard.is_some() {
                // No timer tells when the wall clock is put forward.
                wanted = wanted.map(|at| at.min(now + WALL_LOOK));
            }
        }
        match (wanted, state.timer) {
            (Some(at), Some(key)) if key.at <= at => {}
            (Some(at), old) => {
                if let Some(key) = old {
                    self.core.timers.remove(key);
                }
                let waker = Waker::from(Arc::clone(self));
                let (key, nudge) = self.core.timers.insert_locked(at, waker);
                state.timer = Some(key);
                return nudge;
            }
            (None, Some(key)) => {
                self.core.timers.remove(key);
                state.timer = None;
            }
            (None, None) => {}
        }
        Nudge::default()
    }

    fn refused(&self, refusal: Refusal) -> LockError {
        match refusal {
            Refusal::Held { expires_in, owner } => {
                let votes = self.votes();
                LockError::Held { retry_after: None, expires_in, owner, votes }
            }
            Refusal::NoQuorum { votes } => LockError::NoQuorum { votes: self.core.votes(votes) },
            Refusal::TooSlow { elapsed } => {
                LockError::TooSlow { elapsed, validity: self.validity, votes: self.votes() }
            }
        }
    }

    /// What each node said last.
    pub(super) fn votes(&self) -> Votes {
        let votes = self.state().lease.votes();
        self.core.named(votes)
    }

    fn lost(&self, loss: Loss, plan: &Plan) -> LossCause {
        match loss {
            Loss::Expired { votes } => LossCause::Expired { votes: self.core.named(votes) },
            Loss::ClockJumped { votes } => LossCause::ClockJumped { votes: self.core.named(votes) },
            Loss::Stolen { owner } => LossCause::Stolen { owner },
            Loss::MaxHold => LossCause::MaxHold { limit: plan.max_hold },
            Loss::Halted(Halt::Stalled) => {
                let limit = plan.stall_limit.or(plan.polled_within).unwrap_or_default();
                LossCause::Stalled { limit }
            }
            Loss::Halted(Halt::NoHeartbeat) => {
                LossCause::NoHeartbeat { limit: plan.heartbeat_within.unwrap_or_default() }
            }
        }
    }
}
