//! Counting of the nodes' answers: the attempt, and the rounds of renewal.

use std::time::Duration;

use super::{
    ballot::Ballot,
    event::{Action, Halt, LeadNode, LeaseCommand, Loss, Refusal},
    lease::{Lease, LeasePhase},
};
use crate::{
    error::{Reason, VoteOutcome},
    protocol::rules,
    switches::{self, Switch},
    time::Timestamp,
    token::block_end,
};

/// The attempt: when the lock is held, when the attempt is over, and with which verdict.
impl Lease {
    pub(super) fn send_acquire(&self, node: usize, out: &mut Vec<Action>) {
        let token = self.params.proposal.unwrap_or(0);
        let expires = self.started + self.params.validity;
        out.push(Action::Send { node, command: LeaseCommand::Acquire { token, expires } });
    }

    /// Asks the lead node alone. It grants to one of several contenders; the others have asked one
    /// node and hold nothing, while requests to all nodes at once may split the votes.
    pub(super) fn ask_lead(
        &mut self,
        LeadNode { node, patience }: LeadNode,
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        self.asked_lead = Some((node, now + patience));
        for (_, ballot) in self.ballots.iter_mut().filter(|(other, _)| *other != node) {
            *ballot = Ballot::unasked();
        }
        self.send_acquire(node, out);
    }

    /// Handles the lead node's answer. Returns whether only the lead node has a request so far: its
    /// answer alone decides nothing but a refusal.
    fn waits_for_lead(&mut self, now: Timestamp, out: &mut Vec<Action>) -> bool {
        let Some((lead, until)) = self.asked_lead else { return false };
        match &self.ballots[lead].vote {
            Some(VoteOutcome::Held { owner, remaining }) => {
                let refusal = Refusal::Held { expires_in: *remaining, owner: owner.clone() };
                self.asked_lead = None;
                self.refused_by_lead = true;
                self.send_releases(out);
                self.conclude(refusal, out);
            }
            None if now < until => {}
            _ => {
                self.asked_lead = None;
                self.timeout_at = now + self.params.node_timeout;
                for node in (0..self.params.nodes).filter(|node| *node != lead) {
                    self.ballots[node] = Ballot::new();
                    self.send_acquire(node, out);
                }
            }
        }
        true
    }

    pub(super) fn on_attempt_wake(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        if self.phase == LeasePhase::Acquiring && self.waits_for_lead(now, out) {
            return;
        }
        if now < self.timeout_at || self.grant_grace(now) {
            return;
        }
        self.ballots.iter_mut().for_each(|(_, ballot)| ballot.time_out());
        match self.phase {
            LeasePhase::Acquiring => self.decide(now, out),
            _ => self.settle(now, out),
        }
    }

    /// Extends the timeout by half of the node timeout, once in an attempt, where the wake-up was
    /// late: this process was paused, and the answers may be unread. The validity still counts from
    /// the start.
    fn grant_grace(&mut self, now: Timestamp) -> bool {
        let late = now.saturating_duration_since(self.timeout_at) >= self.params.node_timeout / 8;
        let timeout_at = now + self.params.node_timeout / 2;
        if !late || self.grace_used || timeout_at >= self.end() {
            return false;
        }
        self.grace_used = true;
        self.timeout_at = timeout_at;
        true
    }

    /// R1 and R2: held with a quorum inside the validity; over once that is out of reach.
    pub(super) fn decide(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        if self.waits_for_lead(now, out) {
            return;
        }
        let granted = self.ballots.count_agreeing(Ballot::is_granted);
        let pending = self.ballots.count(Ballot::is_pending);
        if granted >= self.ballots.quorum {
            if let Some(token) = self.agreed_token() {
                // The comparison with the clock comes last, after everything that takes time.
                if switches::is_out(Switch::AcquireDeadline) {
                    self.valid_until = now + self.params.validity;
                }
                if now < self.end() {
                    self.hold(token, out);
                } else {
                    let elapsed = now.saturating_duration_since(self.started);
                    self.give_up(out);
                    self.conclude(Refusal::TooSlow { elapsed }, out);
                }
                return;
            }
            if self.raise(pending, now, out) {
                return;
            }
        } else if granted + pending >= self.ballots.quorum {
            return;
        }
        self.give_up(out);
        self.settle(now, out);
    }

    fn agreed_token(&self) -> Option<u64> {
        if self.params.proposal.is_none() {
            Some(0)
        } else if switches::is_out(Switch::RaiseRound) {
            Some(self.rounds.number(0))
        } else {
            self.rounds.agreed(&self.ballots)
        }
    }

    fn hold(&mut self, token: u64, out: &mut Vec<Action>) {
        self.phase = LeasePhase::Held;
        self.token = token;
        self.last_token = block_end(token, self.params.block);
        self.schedule_renewal();
        out.push(Action::Acquired { token, until: self.end() });
    }

    /// Asks the granting nodes for a number above every fence seen; nodes that grant later join.
    /// Returns false when no raise can succeed any more.
    ///
    /// Fences that are far ahead are left out where a quorum is possible without them: sound nodes
    /// don't accept a number above them.
    fn raise(&mut self, pending: usize, now: Timestamp, out: &mut Vec<Action>) -> bool {
        if let Some((round, _)) = self.rounds.current_raise() {
            self.send_raise(out);
            // Pending votes don't count: one of these nodes may hang.
            let possible = self.ballots.count_agreeing(|ballot| ballot.may_accept(round));
            if possible >= self.ballots.quorum {
                return true;
            }
        }
        let near = self.ballots.count_agreeing(|ballot| ballot.is_granted() && !ballot.far);
        let is_far = near < self.ballots.quorum;
        if is_far && pending > 0 {
            return true;
        }
        if !self.rounds.start_raise(is_far) {
            let granted = self.ballots.iter_mut().filter(|(_, ballot)| ballot.is_granted());
            granted.for_each(|(_, ballot)| ballot.fail_raise());
            return false;
        }
        self.timeout_at = now + self.params.node_timeout;
        self.send_raise(out);
        true
    }

    fn send_raise(&mut self, out: &mut Vec<Action>) {
        let Some((round, token)) = self.rounds.current_raise() else { return };
        for (node, ballot) in self.ballots.iter_mut() {
            if ballot.ask_to_raise(round) {
                out.push(Action::Send { node, command: LeaseCommand::Raise { round, token } });
            }
        }
    }

    /// Releases everywhere, before the verdict is known and before any retry.
    fn give_up(&mut self, out: &mut Vec<Action>) {
        self.phase = LeasePhase::Settling;
        self.send_releases(out);
    }

    /// R3: the verdict must not depend on the order of the answers, so it waits, at most until the
    /// node timeout, for those that can still change it.
    pub(super) fn settle(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        let quorum = self.ballots.quorum;
        let granted = self.ballots.count(Ballot::is_granted);
        let held = self.ballots.count(Ballot::is_held);
        let pending = self.ballots.count(Ballot::is_pending);
        if held > 0 && granted + held >= quorum {
            let (expires_in, owner) = (self.ballots.free_after(), self.ballots.main_owner());
            self.conclude(Refusal::Held { expires_in, owner }, out);
        } else if pending == 0 || granted + held + pending < quorum || now >= self.timeout_at {
            self.ballots.discount_disagreeing();
            self.conclude(Refusal::NoQuorum { votes: self.votes() }, out);
        }
    }

    fn conclude(&mut self, refusal: Refusal, out: &mut Vec<Action>) {
        self.phase = LeasePhase::Released;
        out.push(Action::Refused(refusal));
    }
}

/// Renewal while the lease is held, and the ways in which it ends.
///
/// Each node's ballot has the start of the latest request that set its key's TTL. The q-th largest
/// of these starts, plus the validity, is the time until which a quorum keeps the key: a slow
/// answer to an earlier round still counts, from that round's own start.
impl Lease {
    /// Schedules the first round of renewal at a third of the validity.
    pub(super) fn schedule_renewal(&mut self) {
        self.renew_at = if self.wants_renewal() {
            let counted_from = self.valid_until.saturating_sub(self.params.validity);
            counted_from + rules::renewal_interval(self.params.validity)
        } else {
            Timestamp::MAX
        };
    }

    pub(super) fn wants_renewal(&self) -> bool {
        self.params.auto_extend && self.halted.is_none() && self.valid_until < self.hold_until()
    }

    pub(super) fn on_held_wake(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        if self.check_end(now, out) {
            return;
        }
        if let Some(started) = self.extension
            && now >= started + self.params.node_timeout
        {
            self.extension = None;
            out.push(Action::Extended(Err(self.renewal_votes())));
        }
        if now >= self.renew_at {
            self.start_round(now, out);
        }
    }

    pub(super) fn extend(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        if self.phase != LeasePhase::Held || self.check_end(now, out) {
            return;
        }
        if self.halted.is_some() {
            out.push(Action::Extended(Err(self.renewal_votes())));
            return;
        }
        // A round started at this moment may be decided already.
        if self.ballots.confirmed_by_quorum() >= Some(now) {
            out.push(Action::Extended(Ok(())));
            return;
        }
        self.extension = Some(now);
        self.start_round(now, out);
    }

    /// Stops renewal. The validity stays: the holder may be inside a poll. Rounds under way don't
    /// count.
    pub(super) fn halt(&mut self, why: Halt, now: Timestamp, out: &mut Vec<Action>) {
        if self.phase != LeasePhase::Held || self.check_end(now, out) || self.halted.is_some() {
            return;
        }
        self.halted = Some(why);
        self.renew_at = Timestamp::MAX;
        if self.extension.take().is_some() {
            out.push(Action::Extended(Err(self.renewal_votes())));
        }
    }

    fn start_round(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        // A round is identified by its start.
        if self.round_started == Some(now) {
            return;
        }
        out.push(Action::Renewing);
        self.round_started = Some(now);
        // R4: a failed or slow round is retried until the deadline.
        if self.renew_at != Timestamp::MAX {
            self.renew_at = now + rules::renewal_retry(self.params.validity);
        }
        let command = LeaseCommand::Extend { started: now, until: self.end() };
        for (node, ballot) in self.ballots.iter_mut() {
            // A node that lost the key stores it again.
            ballot.may_hold = true;
            ballot.extended = Some(now);
            out.push(Action::Send { node, command });
        }
    }

    pub(super) fn on_extension(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        // A lease past its validity is never revived.
        if self.phase != LeasePhase::Held || self.check_end(now, out) {
            return;
        }
        if self.ballots.count(Ballot::is_held) >= self.ballots.quorum {
            let owner = self.ballots.main_owner();
            self.lose(Loss::Stolen { owner }, out);
            return;
        }
        let Some(confirmed) = self.find_disputed() else { return };
        let until = confirmed + self.params.validity;
        if until > self.valid_until && self.halted.is_none() {
            self.valid_until = until;
            self.schedule_renewal();
            out.push(Action::Renewed { until: self.end(), counted_from: confirmed });
        }
        if self.extension.is_some_and(|asked| confirmed >= asked) {
            self.extension = None;
            out.push(Action::Extended(Ok(())));
        }
    }

    /// The votes on the latest round of renewal.
    pub(super) fn renewal_votes(&self) -> Vec<VoteOutcome> {
        self.ballots.renewal_votes(self.round_started)
    }

    /// R10: what a node confirmed before its clock jumped does not count; what it has confirmed since
    /// does, as the key was still there. Jumps since a confirmation add up; those before it don't.
    pub(super) fn on_unsound(
        &mut self,
        node: usize,
        (seen, by_micros, at_most): (Timestamp, i64, Duration),
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        let ballot = &mut self.ballots[node];
        if ballot.confirmed.is_none_or(|confirmed| confirmed > seen) {
            return;
        }
        ballot.jumped = ballot.jumped.saturating_add(at_most);
        if ballot.jumped <= self.params.slack {
            return;
        }
        ballot.take_back(Reason::ClockJumped { by_micros });
        match self.phase {
            LeasePhase::Acquiring => self.decide(now, out),
            LeasePhase::Held => {
                if self.check_end(now, out) {
                    return;
                }
                let Some(confirmed) = self.ballots.confirmed_by_quorum() else {
                    let votes = self.votes();
                    self.lose(Loss::ClockJumped { votes }, out);
                    return;
                };
                let until = confirmed + self.params.validity;
                if until < self.valid_until {
                    self.valid_until = until;
                    self.schedule_renewal();
                    out.push(Action::Renewed { until: self.end(), counted_from: confirmed });
                    self.check_end(now, out);
                }
            }
            LeasePhase::Settling | LeasePhase::Lost | LeasePhase::Released => {}
        }
    }

    /// Records whether a quorum still confirms the end. Returns the start since which one confirms
    /// the key.
    pub(super) fn find_disputed(&mut self) -> Option<Timestamp> {
        let confirmed = self.ballots.confirmed_by_quorum();
        let until = confirmed.map(|confirmed| confirmed + self.params.validity);
        self.is_disputed = until < Some(self.valid_until);
        confirmed
    }

    fn check_end(&mut self, now: Timestamp, out: &mut Vec<Action>) -> bool {
        if now < self.end() {
            return false;
        }
        self.run_out(out);
        true
    }

    /// Ends the lease because its end has come, or is about to.
    pub(super) fn run_out(&mut self, out: &mut Vec<Action>) {
        let loss = if self.hold_until() <= self.valid_until {
            Loss::MaxHold
        } else if let Some(why) = self.halted {
            Loss::Halted(why)
        } else {
            Loss::Expired { votes: self.renewal_votes() }
        };
        self.lose(loss, out);
    }

    /// Ends the lease without a release: the work may be inside a poll. The holder's drop releases
    /// the keys, or their TTL ends.
    pub(super) fn lose(&mut self, loss: Loss, out: &mut Vec<Action>) {
        self.phase = LeasePhase::Lost;
        if self.extension.take().is_some() {
            out.push(Action::Extended(Err(self.renewal_votes())));
        }
        out.push(Action::Lost(loss));
    }
}
