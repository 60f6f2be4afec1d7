//! Renewal while the lease is held, and the ways in which it ends.
//!
//! Each node remembers when the latest request that set its key's TTL was started. The q-th
//! largest of these moments, plus the validity, is the time until which a quorum keeps the key:
//! so a slow answer to an earlier round still counts, from that round's own start.

use std::{sync::Arc, time::Duration};

use super::{
    ballot::{self, Ballot, count},
    event::{Action, Command, Halt, Loss},
    lease::{Lease, Phase},
};
use crate::{
    error::{Reason, VoteOutcome},
    protocol::{Answer, HeldAnswer, names::View, rules},
    time::Timestamp,
};

impl Lease {
    /// The first renewal is due when a third of the validity has passed.
    pub(super) fn schedule_renewal(&mut self) {
        self.renew_at = if self.wants_renewal() {
            let counted_from = self.valid_until.saturating_sub(self.terms.validity);
            counted_from + rules::renewal_interval(self.terms.validity)
        } else {
            Timestamp::MAX
        };
    }

    pub(super) fn wants_renewal(&self) -> bool {
        self.terms.auto_extend && self.halted.is_none() && self.valid_until < self.hold_until()
    }

    pub(super) fn on_held_wake(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        if self.check_end(now, out) {
            return;
        }
        if let Some(started) = self.extension
            && now >= started + self.terms.node_timeout
        {
            self.extension = None;
            out.push(Action::Extended(Err(self.renewal_votes())));
        }
        if now >= self.renew_at {
            self.start_round(now, out);
        }
    }

    pub(super) fn extend(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        if self.phase != Phase::Held || self.check_end(now, out) {
            return;
        }
        if self.halted.is_some() {
            out.push(Action::Extended(Err(self.renewal_votes())));
            return;
        }
        // A round that was started at this very moment may be decided already.
        if self.confirmed_by_quorum() >= Some(now) {
            out.push(Action::Extended(Ok(())));
            return;
        }
        self.extension = Some(now);
        self.start_round(now, out);
    }

    /// What is valid is not cut: the holder may be inside a poll. Rounds under way don't count.
    pub(super) fn halt(&mut self, why: Halt, now: Timestamp, out: &mut Vec<Action>) {
        if self.phase != Phase::Held || self.check_end(now, out) || self.halted.is_some() {
            return;
        }
        self.halted = Some(why);
        self.renew_at = Timestamp::MAX;
        if self.extension.take().is_some() {
            out.push(Action::Extended(Err(self.renewal_votes())));
        }
    }

    fn start_round(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        // A round is named by its start: a second one at the same moment is the same.
        if self.round_started == Some(now) {
            return;
        }
        out.push(Action::Renewing);
        self.round_started = Some(now);
        // R4: a round that fails or is slow is followed by the next, until the deadline.
        if self.renew_at != Timestamp::MAX {
            self.renew_at = now + rules::renewal_retry(self.terms.validity);
        }
        let command = Command::Extend { started: now, until: self.end() };
        for (node, ballot) in self.ballots.iter_mut().enumerate() {
            // A node that lost the key is given it again.
            ballot.may_hold = true;
            ballot.extended = Some(now);
            Self::send(node, command, out);
        }
    }

    pub(super) fn on_extension(
        &mut self,
        node: usize,
        started: Timestamp,
        (result, view): (Result<Answer, Reason>, Option<Arc<View>>),
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        let ballot = &mut self.ballots[node];
        match result {
            Ok(Answer::Extended) => {
                ballot.vote = Some(VoteOutcome::Granted);
                if ballot.confirm(started) {
                    ballot.view = view;
                }
            }
            // An older word than what the node confirmed since.
            Ok(Answer::Held(_)) if Some(started) < ballot.confirmed => {}
            Ok(Answer::Held(HeldAnswer { owner, remaining, fence })) => {
                ballot.vote = Some(VoteOutcome::Held { owner, remaining });
                ballot.confirmed = None;
                ballot.rule_out(Some(started));
                self.fence.see(fence);
            }
            Ok(_) => {
                let reason = Reason::Protocol("not an answer to an extension".into());
                ballot.vote = Some(VoteOutcome::NotCounted(reason));
            }
            // What the node confirmed before still stands.
            Err(reason) => ballot.vote = Some(VoteOutcome::NotCounted(reason)),
        }
        // A lease past its validity is never revived.
        if self.phase != Phase::Held || self.check_end(now, out) {
            return;
        }
        if count(&self.ballots, Ballot::is_held) >= self.quorum {
            let owner = ballot::main_owner(&self.ballots);
            self.lose(Loss::Stolen { owner }, out);
            return;
        }
        let Some(confirmed) = self.find_disputed() else { return };
        let until = confirmed + self.terms.validity;
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

    /// What the nodes said to the latest renewal; an older grant is no answer to it.
    pub(super) fn renewal_votes(&self) -> Vec<VoteOutcome> {
        let vote = |ballot: &Ballot| {
            let unanswered = ballot.is_granted() || ballot.is_pending();
            if unanswered && ballot.confirmed < self.round_started {
                VoteOutcome::NotCounted(Reason::TimedOut)
            } else {
                ballot.shown()
            }
        };
        self.ballots.iter().map(vote).collect()
    }

    /// R10: what a node confirmed before its clock jumped is worth nothing; what it confirmed since
    /// is, as the key was still there. Jumps since a confirmation add up; those before it don't.
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
        if ballot.jumped <= self.terms.slack {
            return;
        }
        ballot.confirmed = None;
        ballot.vote = Some(VoteOutcome::NotCounted(Reason::ClockJumped { by_micros }));
        match self.phase {
            Phase::Acquiring => self.decide(now, out),
            Phase::Held => {
                if self.check_end(now, out) {
                    return;
                }
                let Some(confirmed) = self.confirmed_by_quorum() else {
                    let votes = ballot::shown(&self.ballots);
                    self.lose(Loss::ClockJumped { votes }, out);
                    return;
                };
                let until = confirmed + self.terms.validity;
                if until < self.valid_until {
                    self.valid_until = until;
                    self.schedule_renewal();
                    out.push(Action::Renewed { until: self.end(), counted_from: confirmed });
                    self.check_end(now, out);
                }
            }
            Phase::Settling | Phase::Lost | Phase::Ended => {}
        }
    }

    /// Notes whether a quorum still confirms the end; returns since when one confirms the key.
    pub(super) fn find_disputed(&mut self) -> Option<Timestamp> {
        let confirmed = self.confirmed_by_quorum();
        let until = confirmed.map(|confirmed| confirmed + self.terms.validity);
        self.is_disputed = until < Some(self.valid_until);
        confirmed
    }

    /// The latest moment since which a quorum whose members name each other confirmed the key.
    fn confirmed_by_quorum(&self) -> Option<Timestamp> {
        let mut confirmed: Vec<_> = self.ballots.iter().filter_map(|b| b.confirmed).collect();
        confirmed.sort_unstable();
        let latest = confirmed.len().checked_sub(self.quorum)?;
        // The members of a quorum nearly always name each other: then the first one is it.
        confirmed[..=latest].iter().rev().copied().find(|&moment| {
            let since = |ballot: &Ballot| ballot.confirmed >= Some(moment);
            ballot::count_together(&self.ballots, since) >= self.quorum
        })
    }

    fn check_end(&mut self, now: Timestamp, out: &mut Vec<Action>) -> bool {
        if now < self.end() {
            return false;
        }
        self.run_out(out);
        true
    }

    /// The lease is over because its end has come, or is about to.
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

    /// The keys are not given back yet: the work may be inside a poll. The release comes when the
    /// holder lets go, or the TTL frees them.
    pub(super) fn lose(&mut self, loss: Loss, out: &mut Vec<Action>) {
        self.phase = Phase::Lost;
        if self.extension.take().is_some() {
            out.push(Action::Extended(Err(self.renewal_votes())));
        }
        out.push(Action::Lost(loss));
    }
}
