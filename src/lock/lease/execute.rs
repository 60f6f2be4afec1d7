use std::{
    sync::{Arc, MutexGuard, atomic::Ordering},
    task::Waker,
    time::Duration,
};

use super::{
    active::ActiveLease,
    shared::{Grant, SharedLease, State},
};
use crate::{
    error::{LockError, LossCause, ReleaseError},
    lock::{
        attempts::Pace, overrun::OverrunWatch, release::Released, settings::Plan, stall::StallWatch,
    },
    metrics,
    quorum::{Action, Command, Halt, Loss, Refusal, ReleaseVerdict},
    time::Timestamp,
};

/// So often a lease under the strict clock guard looks at the wall clock.
const WALL_LOOK: Duration = Duration::from_millis(250);

impl SharedLease {
    pub(super) fn carry_out<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        mut actions: Vec<Action>,
        now: Timestamp,
    ) {
        let mut wakers = Vec::new();
        let mut ticket = None;
        let mut orphans = Vec::new();
        let mut decision = None;
        let mut overran = None;
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
                    tracing::debug!(resource = %self.resource(), "renewing");
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
                    decision = Some(Err(self.refused(refusal)));
                    continue;
                }
                Action::Renewed { until, counted_from } => {
                    self.set_wall_until(&mut state, counted_from);
                    if let Some(lease) = state.grant.lease.upgrade() {
                        lease.valid_until.store(until.as_nanos(), Ordering::Release);
                    }
                    state.grant.renewals += 1;
                    state.grant.renewal_watchers.take(&mut wakers);
                    metrics::renewed();
                    tracing::debug!(resource = %self.resource(), "renewed");
                    // Nobody waits for this: guarded work is not woken by every renewal.
                    continue;
                }
                Action::Extended(result) => {
                    state.grant.extension =
                        Some(result.map_err(|votes| LockError::NoQuorum {
                            votes: self.core.votes(votes),
                        }));
                }
                Action::Lost(loss) => {
                    overran = self.lose(&mut state, loss);
                    ticket = state.ticket.take();
                }
                Action::Released(verdict) => state.grant.released = Some(self.released(verdict)),
            }
            state.grant.watchers.take(&mut wakers);
        }
        self.end_looks(&mut state.grant, &mut wakers);
        state.spare = actions;
        if !state.sending {
            state = self.send_outbox(state);
            self.arm(&mut state);
            if state.grant.holder_gone {
                ticket = state.ticket.take();
            }
        }
        let is_under_way = decision.is_none() && !state.grant.holder_gone;
        let permit = if is_under_way { None } else { state.permit.take() };
        drop(state);
        if let Some(permit) = permit {
            permit.end(self.pace(decision.as_ref(), now));
        }
        for node in orphans {
            // The last grant may run as late as its patience allows; then the TTL starts.
            let longest = self.ttl + self.patience() * 2;
            self.core.releaser.push(&self.core, node, Arc::clone(&self.id), longest);
        }
        drop(ticket);
        if let Some((lease, poll, ended)) = overran {
            let Plan { on_overrun, slack, .. } = lease.plan;
            OverrunWatch::start(&lease, poll, on_overrun, ended, slack);
        }
        if let Some(decision) = decision {
            self.announce(decision, &mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// What a decision tells of the nodes' pace.
    fn pace(&self, decision: Option<&Result<(), LockError>>, now: Timestamp) -> Pace {
        let took = now.since(self.started);
        match decision {
            Some(Ok(()) | Err(LockError::Held { .. })) if took <= self.node_timeout / 2 => {
                Pace::Prompt
            }
            Some(Err(LockError::NoQuorum { .. })) if took >= self.node_timeout => {
                Pace::TimedOut { node_timeout: self.node_timeout }
            }
            _ => Pace::Unknown,
        }
    }

    /// The grant is over at once; tells which poll goes on, if one does, and since when it overruns.
    fn lose(&self, state: &mut State, loss: Loss) -> Option<(Arc<ActiveLease>, u64, Timestamp)> {
        let lease = state.grant.lease.upgrade();
        let end = lease.as_ref().map_or(0, |lease| lease.valid_until.swap(0, Ordering::SeqCst));
        let ended = self.core.clock().now().min(Timestamp::from_nanos(end));
        let cause = self.lost(loss, &state.grant.plan);
        metrics::lost(&cause);
        // An end that was planned is nobody's alarm.
        let planned = matches!(cause, LossCause::MaxHold { .. });
        if planned || !state.grant.plan.auto_extend {
            tracing::debug!(resource = %self.resource(), %cause, "lock ended");
        } else {
            tracing::warn!(resource = %self.resource(), %cause, "lock lost");
        }
        state.grant.loss = Some(cause);
        let lease = lease?;
        let (poll, _) = lease.poll_under_way()?;
        Some((lease, poll, ended))
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
            let is_verdict = !state.lease.was_kept_out();
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
    pub(super) fn arm(self: &Arc<Self>, state: &mut State) {
        let mut wanted = state.lease.next_wake();
        let is_held = state.grant.held_since.is_some() && !state.grant.is_over();
        if self.core.settings.clock_guard.is_some() && is_held {
            // No timer tells when the wall clock is put forward.
            let look = self.core.clock().now() + WALL_LOOK;
            wanted = wanted.map(|at| at.min(look));
        }
        match (wanted, state.timer) {
            (Some(at), Some(key)) if key.at <= at => {}
            (Some(at), old) => {
                if let Some(key) = old {
                    self.core.timers.remove(key);
                }
                state.timer = Some(self.core.timers.insert(at, Waker::from(Arc::clone(self))));
            }
            (None, Some(key)) => {
                self.core.timers.remove(key);
                state.timer = None;
            }
            (None, None) => {}
        }
    }

    fn refused(&self, refusal: Refusal) -> LockError {
        match refusal {
            Refusal::Held { retry_after, owner } => LockError::Held { retry_after, owner },
            Refusal::NoQuorum { votes } => LockError::NoQuorum { votes: self.core.votes(votes) },
            Refusal::TooSlow { elapsed } => LockError::TooSlow { elapsed, validity: self.validity },
        }
    }

    fn lost(&self, loss: Loss, plan: &Plan) -> LossCause {
        match loss {
            Loss::Expired { votes } => LossCause::Expired { votes: self.core.votes(votes) },
            Loss::ClockJumped { votes } => LossCause::ClockJumped { votes: self.core.votes(votes) },
            Loss::Stolen { owner } => LossCause::Stolen { owner },
            Loss::MaxHold => LossCause::MaxHold { limit: plan.max_hold },
            Loss::Halted(Halt::Stalled) => {
                LossCause::Stalled { limit: plan.stall_limit.unwrap_or_default() }
            }
            Loss::Halted(Halt::NoHeartbeat) => {
                LossCause::NoHeartbeat { limit: plan.heartbeat_within.unwrap_or_default() }
            }
        }
    }

    fn released(&self, verdict: ReleaseVerdict) -> Result<Released, ReleaseError> {
        match verdict {
            ReleaseVerdict::Released => Ok(Released::Released),
            ReleaseVerdict::AlreadyLost => Ok(Released::AlreadyLost),
            ReleaseVerdict::NoQuorum { votes } => {
                Err(ReleaseError::NoQuorum { votes: self.core.votes(votes) })
            }
        }
    }
}
