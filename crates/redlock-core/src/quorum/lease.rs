//! One attempt to hold a resource, and the lease that follows from it.

use std::{sync::Arc, time::Duration};

use super::{
    ballot::{Ballot, ReleaseState},
    ballots::Ballots,
    event::{Action, Event, Halt, HandOff, LeaseCommand, LeaseParams, NextHolder},
    token_rounds::TokenRounds,
};
use crate::{
    protocol::{Answer, OpId, formulas, views::View},
    switches::{self, Switch},
    timestamp::Timestamp,
    vote::{Reason, VoteOutcome},
};

/// One attempt to hold a resource, and what follows from it.
///
/// A lease belongs to one nonce. It is never reused: the release of one attempt must not delete
/// what the next was granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub(super) terms: LeaseTerms,
    pub(super) phase: LeasePhase,
    pub(super) ballots: Ballots,
    pub(super) rounds: TokenRounds,
    pub(super) started: Timestamp,
    /// The token of the present holder, once the lease is held.
    pub(super) token: u64,
    /// The last token of the lease's block.
    pub(super) last_token: u64,
    /// The start of the present holder's hold time; the attempt's start for the first holder.
    pub(super) held_from: Timestamp,
    /// While acquiring: when the nodes that have not answered count as timed out.
    pub(super) timeout_at: Timestamp,
    /// The lead node, and the end of the wait for its answer. Requests to other nodes are held back
    /// until then.
    pub(super) asked_lead: Option<(usize, Timestamp)>,
    pub(super) refused_by_lead: bool,
    pub(super) grace_used: bool,
    /// The end of the validity that a quorum confirmed.
    pub(super) valid_until: Timestamp,
    /// Nodes took their confirmations back, so that no quorum confirms `valid_until` any more.
    pub(super) is_disputed: bool,
    /// When the next round of renewal is due.
    pub(super) renew_at: Timestamp,
    /// When the latest round of renewal was started.
    pub(super) round_started: Option<Timestamp>,
    /// When the holder asked for the extension that it waits for.
    pub(super) extension: Option<Timestamp>,
    /// Why the lease is not renewed any more.
    pub(super) halted: Option<Halt>,
    /// The end of the linger, in which the lease has no holder and its process keeps it for its
    /// next request. `None` if it does not linger.
    pub(super) lingers_until: Option<Timestamp>,
    /// The deadline of a release that the holder waits for.
    release_timeout: Option<Timestamp>,
}

/// The [parameters](LeaseParams) that a lease needs after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LeaseTerms {
    pub(super) validity: Duration,
    pub(super) slack: Duration,
    pub(super) node_timeout: Duration,
    /// The maximum hold time of the present holder.
    pub(super) max_hold: Duration,
    pub(super) auto_extend: bool,
    /// Whether it has a fencing token.
    pub(super) is_fenced: bool,
    /// Whether a lead node gets the first request.
    pub(super) asks_lead: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LeasePhase {
    /// Votes are being counted.
    Acquiring,
    /// The attempt is over and the release under way; the verdict waits for late votes.
    Settling,
    Held,
    /// Lost. Released when the holder drops it.
    Lost,
    Released,
}

impl LeasePhase {
    /// Returns whether an event may lead from this phase to `next`. A lease never goes back.
    const fn may_become(self, next: Self) -> bool {
        match self {
            Self::Acquiring => !matches!(next, Self::Lost),
            Self::Settling => matches!(next, Self::Settling | Self::Released),
            Self::Held => matches!(next, Self::Held | Self::Lost | Self::Released),
            Self::Lost => matches!(next, Self::Lost | Self::Released),
            Self::Released => matches!(next, Self::Released),
        }
    }
}

impl Lease {
    /// Starts an attempt at `now`, from which every later validity counts.
    ///
    /// # Panics
    ///
    /// If there are no nodes.
    pub fn start(params: LeaseParams, now: Timestamp, out: &mut Vec<Action>) -> Self {
        assert!(params.nodes > 0, "a lease needs at least one node");
        // With fewer than three nodes, votes cannot split.
        let lead = params.lead_node.filter(|lead| lead.node < params.nodes && params.nodes >= 3);
        let mut lease = Self {
            terms: LeaseTerms {
                validity: params.validity,
                slack: params.slack,
                node_timeout: params.node_timeout,
                max_hold: params.max_hold,
                auto_extend: params.auto_extend,
                is_fenced: params.proposal.is_some(),
                asks_lead: lead.is_some(),
            },
            phase: LeasePhase::Acquiring,
            ballots: Ballots::new(params.nodes),
            rounds: TokenRounds::new(params.proposal.unwrap_or(0), params.block, params.shared_at),
            started: now,
            token: 0,
            last_token: 0,
            held_from: now,
            timeout_at: now + params.node_timeout,
            asked_lead: None,
            refused_by_lead: false,
            grace_used: false,
            valid_until: now + params.validity,
            is_disputed: false,
            renew_at: Timestamp::MAX,
            round_started: None,
            extension: None,
            halted: None,
            lingers_until: None,
            release_timeout: None,
        };
        match lead {
            Some(lead) => lease.ask_lead(lead, now, out),
            None => (0..params.nodes).for_each(|node| lease.send_acquire(node, out)),
        }
        lease
    }

    /// Handles an event at the moment `now` and appends the resulting actions to `out`.
    ///
    /// `now` must not go back from call to call.
    pub fn handle(&mut self, event: Event, now: Timestamp, out: &mut Vec<Action>) {
        let (before, sent) = (self.phase, out.len());
        self.step(event, now, out);
        debug_assert!(before.may_become(self.phase), "{before:?} became {:?}", self.phase);
        if cfg!(debug_assertions) {
            self.check(&out[sent..]);
        }
    }

    fn step(&mut self, event: Event, now: Timestamp, out: &mut Vec<Action>) {
        match event {
            Event::Answer { node, op, result, view } => {
                self.on_answer(node, op, (result, view), now, out);
            }
            Event::NotSent { node, op, reason } => {
                if op == OpId::Acquire && self.ballots[node].is_pending() {
                    self.ballots[node].rule_out();
                }
                self.on_answer(node, op, (Err(reason), None), now, out);
            }
            Event::Wake => match self.phase {
                LeasePhase::Acquiring | LeasePhase::Settling => self.on_attempt_wake(now, out),
                LeasePhase::Held => self.on_held_wake(now, out),
                LeasePhase::Lost => {}
                LeasePhase::Released => {
                    if self.release_timeout.is_some_and(|at| now >= at) {
                        self.decide_release(true, out);
                    }
                }
            },
            Event::Unsound { node, seen, by_micros, at_most } => {
                self.on_unsound(node, (seen, by_micros, at_most), now, out);
            }
            Event::Stop if self.phase == LeasePhase::Held => self.run_out(out),
            Event::Stop => {}
            // A lingering lease has no holder that could ask for these.
            Event::Extend | Event::Halt(_) if self.lingers_until.is_some() => {}
            Event::Extend => self.extend(now, out),
            Event::Halt(why) => self.halt(why, now, out),
            Event::Release { awaited } => self.release(awaited, now, out),
        }
    }

    fn on_answer(
        &mut self,
        node: usize,
        op: OpId,
        (result, view): (Result<Answer, Reason>, Option<Arc<View>>),
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        let (ballot, rounds) = (&mut self.ballots[node], &mut self.rounds);
        match op {
            OpId::Acquire => {
                if ballot.on_acquire_answer(result, view, self.started, rounds) {
                    match self.phase {
                        LeasePhase::Acquiring => self.decide(now, out),
                        LeasePhase::Settling => self.settle(now, out),
                        LeasePhase::Held | LeasePhase::Lost | LeasePhase::Released => {}
                    }
                }
            }
            OpId::Raise(round) => {
                ballot.on_raise_answer(round, result, view.as_ref(), rounds);
                match self.phase {
                    LeasePhase::Acquiring => self.decide(now, out),
                    // A late answer may take a confirmation back.
                    LeasePhase::Held => {
                        self.find_disputed();
                    }
                    LeasePhase::Settling | LeasePhase::Lost | LeasePhase::Released => {}
                }
            }
            OpId::Extend(started) => {
                ballot.on_extend_answer(started, result, view, rounds);
                self.on_extension(now, out);
            }
            OpId::Release => {
                if ballot.on_release_answer(result) {
                    if ballot.may_hold() {
                        out.push(Action::Orphaned { node });
                    }
                    self.decide_release(false, out);
                }
            }
        }
    }

    /// Checks the invariants, which the README of this crate lists. `actions` are the actions of
    /// the last event.
    fn check(&self, actions: &[Action]) {
        if self.phase == LeasePhase::Held {
            let validity = self.terms.validity;
            let confirms = |ballot: &Ballot| {
                ballot.confirmed.is_some_and(|at| at + validity >= self.valid_until)
            };
            assert!(
                self.is_disputed
                    || switches::is_out(Switch::AcquireDeadline)
                    || self.ballots.count_agreeing(confirms) >= self.ballots.quorum,
                "no quorum confirms the validity until {:?}: {self:?}",
                self.valid_until
            );
            assert!(
                !self.terms.is_fenced || (1..=self.last_token).contains(&self.token),
                "the token {} is outside of the lease's block: {self:?}",
                self.token
            );
        } else {
            assert!(self.lingers_until.is_none(), "a lease that is not held lingers: {self:?}");
        }
        if matches!(self.phase, LeasePhase::Settling | LeasePhase::Released) {
            let is_release = |action: &Action| match action {
                Action::Send { command, .. } => *command == LeaseCommand::Release,
                _ => true,
            };
            assert!(actions.iter().all(is_release), "sent after the release: {actions:?}");
        }
    }

    /// Returns when [`Event::Wake`] is due next.
    pub fn next_wake(&self) -> Option<Timestamp> {
        match self.phase {
            LeasePhase::Acquiring | LeasePhase::Settling => {
                if switches::is_out(Switch::Timeouts) {
                    return None;
                }
                let lead = self.asked_lead.map_or(self.timeout_at, |(_, until)| until);
                Some(lead.min(self.timeout_at))
            }
            LeasePhase::Held if self.lingers_until.is_some() => self.lingers_until,
            LeasePhase::Held => {
                let extension = self.extension.map(|started| started + self.terms.node_timeout);
                let next = self.end().min(self.renew_at);
                Some(extension.map_or(next, |at| next.min(at)))
            }
            LeasePhase::Lost => None,
            LeasePhase::Released => self.release_timeout,
        }
    }

    /// Returns the end of the validity or of the maximum hold time, whichever is first.
    pub fn end(&self) -> Timestamp {
        self.valid_until.min(self.hold_until())
    }

    /// Returns the number of nodes that granted according to their latest answers.
    pub fn granted(&self) -> usize {
        self.ballots.count(Ballot::is_granted)
    }

    /// Returns the latest vote of each node.
    pub fn votes(&self) -> Vec<VoteOutcome> {
        self.ballots.votes()
    }

    /// Returns whether the lead node refused the attempt. No other node was sent a request then, so
    /// this refusal alone is not a verdict.
    pub fn refused_by_lead(&self) -> bool {
        self.refused_by_lead
    }

    /// Returns whether the lead node alone granted the attempt, and another node refused it: a holder
    /// has a quorum without the lead node, as contenders ask that node first.
    pub fn is_refused_after_lead(&self) -> bool {
        self.terms.asks_lead
            && self.ballots.count(Ballot::is_granted) <= 1
            && self.ballots.count(Ballot::is_held) > 0
    }

    /// Returns the number proposed in a round: the proposal in round 0, then the raises.
    pub fn number(&self, round: u8) -> u64 {
        self.rounds.number(round)
    }

    pub(super) fn hold_until(&self) -> Timestamp {
        self.held_from + self.terms.max_hold
    }

    /// Returns whether the next holder may take over: the lease is held and renewed, a quorum
    /// confirms its end, and half of its validity and a token of its block are left.
    ///
    /// No other lease gets a token of the block, because a quorum has stored the block's end, and a
    /// quorum grants no token at or below the number that it stored.
    pub fn can_be_handed_on(&self, now: Timestamp) -> bool {
        let end = if self.is_lingering() { self.valid_until } else { self.end() };
        let is_sound = self.phase == LeasePhase::Held
            && self.halted.is_none()
            && !self.is_disputed
            && now < end;
        let has_token = !self.terms.is_fenced || self.token < self.last_token;
        is_sound
            && has_token
            && self.valid_until.saturating_duration_since(now) >= self.terms.validity / 2
    }

    /// Hands the lease to `next` at `now`, without a message: the nodes keep the key, renewal
    /// continues, and the end of the validity is the one that a quorum confirmed. The token, the
    /// maximum hold time and `auto_extend` are the next holder's. Returns `None`, and changes
    /// nothing, unless the lease [can be handed on](Self::can_be_handed_on).
    pub fn hand_on(&mut self, next: NextHolder, now: Timestamp) -> Option<HandOff> {
        if !self.can_be_handed_on(now) {
            return None;
        }
        if self.terms.is_fenced {
            self.token += 1;
        }
        self.lingers_until = None;
        self.held_from = now;
        self.terms.max_hold = next.max_hold;
        self.terms.auto_extend = next.auto_extend;
        // The former holder asked for it. Its result is not reported to the next holder.
        self.extension = None;
        let is_scheduled = self.renew_at < Timestamp::MAX;
        if !is_scheduled || !self.wants_renewal() {
            // A round that is due or under way stays: a quick succession of holders must not start
            // a round each.
            self.schedule_renewal();
            if let Some(started) = self.round_started {
                let next = started + formulas::renewal_retry(self.terms.validity);
                self.renew_at = self.renew_at.max(next);
            }
        }
        Some(HandOff { token: self.token, until: self.end() })
    }

    /// Makes an exclusive lease that is held a shared one, by a renewal in the other form: a node that has
    /// the exclusive key stores the shared lease in its place, in one step, and one that has neither stores
    /// it as any renewal does. Returns the shared lease, which is held until the same end, and its hand-off.
    /// This one has ended, and what is sent for it later has to be dropped. Returns `None`, and changes
    /// nothing, unless the lease is held and renewed, and has no holder that waits for a hand-off.
    ///
    /// Until the renewal, the exclusive keys of a quorum keep exclusive leases out, as shared ones do. The
    /// token is the last one of the exclusive lease's block: a quorum has it as its fence, so it is at least
    /// the token of each holder of this lease, and below that of each later exclusive one (R9).
    pub fn downgrade(
        &mut self,
        next: NextHolder,
        shared_at: u64,
        now: Timestamp,
        out: &mut Vec<Action>,
    ) -> Option<(Self, HandOff)> {
        debug_assert!(!self.rounds.is_shared(), "it is shared");
        let is_held = self.phase == LeasePhase::Held && self.lingers_until.is_none();
        if !is_held || self.halted.is_some() || now >= self.end() {
            return None;
        }
        let mut shared = self.clone();
        self.phase = LeasePhase::Released;
        self.extension = None;
        shared.rounds = TokenRounds::new(self.last_token, 1, Some(shared_at));
        shared.token = self.last_token;
        (shared.held_from, shared.terms.max_hold) = (now, next.max_hold);
        shared.terms.auto_extend = next.auto_extend;
        shared.extension = None;
        // Answers to raises are dropped, which may say that a key is gone.
        shared.ballots.iter_mut().for_each(|(_, ballot)| ballot.drop_raises());
        shared.find_disputed();
        // A round that began at this moment asked for the other form.
        shared.round_started = None;
        shared.renew_at = Timestamp::MAX;
        shared.start_round(now, out);
        shared.renew_at = now + formulas::renewal_retry(shared.terms.validity);
        let hand_off = HandOff { token: shared.token, until: shared.end() };
        Some((shared, hand_off))
    }

    /// Lets a further holder use a shared lease from `now` on, beside the present ones. The holder that
    /// may stay longest gives the lease its maximum hold time. Returns `None`, and changes nothing,
    /// unless the lease is held and renewed, a quorum confirms its end, and `at_least` of its validity is
    /// left.
    pub fn join(
        &mut self,
        next: NextHolder,
        at_least: Duration,
        now: Timestamp,
    ) -> Option<HandOff> {
        debug_assert!(self.rounds.is_shared(), "an exclusive lease has one holder");
        let is_sound = self.phase == LeasePhase::Held
            && self.halted.is_none()
            && !self.is_disputed
            && now < self.end()
            && self.valid_until.saturating_duration_since(now) >= at_least;
        if !is_sound {
            return None;
        }
        if now + next.max_hold > self.hold_until() {
            (self.held_from, self.terms.max_hold) = (now, next.max_hold);
            if self.renew_at == Timestamp::MAX {
                self.schedule_renewal();
            }
        }
        Some(HandOff { token: self.token, until: self.end() })
    }

    /// Sets the maximum hold time of a shared lease, after a holder has left. The holder that may stay
    /// longest of the others has held it since `held_from`, and for `max_hold` at most.
    pub fn leave(&mut self, held_from: Timestamp, max_hold: Duration) {
        debug_assert!(self.rounds.is_shared(), "an exclusive lease has one holder");
        (self.held_from, self.terms.max_hold) = (held_from, max_hold);
    }

    /// Keeps the lease for the next holder until `until`, after the present one has released it:
    /// without a renewal, and no longer than it [can be handed on](Self::can_be_handed_on). At the
    /// end, or at a loss, it is released. Returns false, and changes nothing, unless it can be
    /// handed on.
    pub fn linger(&mut self, until: Timestamp, now: Timestamp) -> bool {
        if !self.can_be_handed_on(now) {
            return false;
        }
        let last = self.valid_until.saturating_sub(self.terms.validity / 2);
        self.lingers_until = Some(until.min(last));
        self.renew_at = Timestamp::MAX;
        self.extension = None;
        true
    }

    /// Returns whether the lease has no holder, and its process [keeps it](Self::linger).
    pub fn is_lingering(&self) -> bool {
        self.lingers_until.is_some()
    }

    fn release(&mut self, awaited: bool, now: Timestamp, out: &mut Vec<Action>) {
        self.phase = LeasePhase::Released;
        self.asked_lead = None;
        self.lingers_until = None;
        if awaited {
            self.release_timeout = Some(now + self.terms.node_timeout);
        }
        self.send_releases(out);
        // Another holder of a shared lease may have released it before.
        self.decide_release(false, out);
    }

    /// Sends the release to every node that may store a key, whether or not it answered. A node that
    /// refused stores none.
    pub(super) fn send_releases(&mut self, out: &mut Vec<Action>) {
        for (node, ballot) in self.ballots.iter_mut() {
            if ballot.release == ReleaseState::NotSent {
                ballot.release = ReleaseState::Sent;
                out.push(Action::Send { node, command: LeaseCommand::Release });
            }
        }
    }

    fn decide_release(&mut self, late: bool, out: &mut Vec<Action>) {
        if self.release_timeout.is_some()
            && let Some(verdict) = self.ballots.release_verdict(late)
        {
            self.release_timeout = None;
            out.push(Action::Released(verdict));
        }
    }
}
