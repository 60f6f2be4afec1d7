//! The renewal of a held lease, and the ways in which it ends (R4, R10).
//!
//! For each node the lease remembers the start of the latest request that set the TTL of the key. A
//! quorum keeps the key until the q-th largest of these starts plus the validity, so a slow answer
//! to an earlier round still counts, from its own start. Rounds begin at a third of the validity
//! and repeat (every validity / 20, 2 to 250 ms) until the deadline; a failed round changes
//! nothing. A node that lost the key gets it again. A lease past its end is never revived. Once q
//! nodes report another holder, the lock is lost immediately. At `maxmemory` a server refuses `SET`
//! but not `PEXPIRE`, so the key of a lease that still exists is renewed by `PEXPIRE` alone.

use std::time::Duration;

use super::{
    ballot::Ballot,
    event::{Action, Halt, LeaseCommand, Loss},
    lease::{Lease, LeasePhase},
};
use crate::{
    protocol::formulas,
    timestamp::Timestamp,
    vote::{Reason, VoteOutcome},
};

/// Renewal while the lease is held, and the ways in which it ends.
impl Lease {
    /// Schedules the first round of renewal at a third of the validity.
    pub(super) fn schedule_renewal(&mut self) {
        self.renew_at = if self.wants_renewal() {
            let counted_from = self.valid_until.saturating_sub(self.terms.validity);
            counted_from + formulas::renewal_interval(self.terms.validity)
        } else {
            Timestamp::MAX
        };
    }

    pub(super) fn wants_renewal(&self) -> bool {
        self.terms.auto_extend && self.halted.is_none() && self.valid_until < self.hold_until()
    }

    pub(super) fn on_held_wake(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        if self.check_end(now, out) || self.lingers_until.is_some() {
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

    pub(super) fn start_round(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        // A round is identified by its start.
        if self.round_started == Some(now) {
            // An answer to an earlier round may have made the next one due at this moment.
            if self.renew_at <= now {
                self.renew_at = now + formulas::renewal_retry(self.terms.validity);
            }
            return;
        }
        out.push(Action::Renewing);
        self.round_started = Some(now);
        // R4: a failed or slow round is retried until the deadline.
        if self.renew_at != Timestamp::MAX {
            self.renew_at = now + formulas::renewal_retry(self.terms.validity);
        }
        let command = LeaseCommand::Extend { started: now, until: self.end() };
        for (node, ballot) in self.ballots.iter_mut() {
            // A node that lost the key stores it again.
            ballot.extend();
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
        let until = confirmed + self.terms.validity;
        if until > self.valid_until && self.halted.is_none() {
            self.move_end(until, out);
        }
        if self.extension.is_some_and(|asked| confirmed >= asked) {
            self.extension = None;
            out.push(Action::Extended(Ok(())));
        }
    }

    /// Sets the end of the validity that a quorum confirmed, and reports it to the holder, if there
    /// is one.
    fn move_end(&mut self, until: Timestamp, out: &mut Vec<Action>) {
        self.valid_until = until;
        if self.lingers_until.is_none() {
            self.schedule_renewal();
            out.push(Action::Renewed { until: self.end() });
        }
    }

    /// Returns the votes on the latest round of renewal.
    pub(super) fn renewal_votes(&self) -> Vec<VoteOutcome> {
        self.ballots.renewal_votes(self.round_started)
    }

    /// R10: what a node confirmed before its clock jumped does not count; what it has confirmed
    /// since does, as the key was still there. Jumps since a confirmation add up; those before it
    /// don't.
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
        if ballot.add_jump(at_most) <= self.terms.slack {
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
                let until = confirmed + self.terms.validity;
                if until < self.valid_until {
                    self.move_end(until, out);
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
        let until = confirmed.map(|confirmed| confirmed + self.terms.validity);
        self.is_disputed = until < Some(self.valid_until);
        confirmed
    }

    fn check_end(&mut self, now: Timestamp, out: &mut Vec<Action>) -> bool {
        if now < self.lingers_until.unwrap_or(self.end()) {
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
    /// the keys, or their TTL ends. A lease that lingers has no holder, and is released.
    pub(super) fn lose(&mut self, loss: Loss, out: &mut Vec<Action>) {
        if self.lingers_until.take().is_some() {
            self.phase = LeasePhase::Released;
            return self.send_releases(out);
        }
        self.phase = LeasePhase::Lost;
        if self.extension.take().is_some() {
            out.push(Action::Extended(Err(self.renewal_votes())));
        }
        out.push(Action::Lost(loss));
    }
}
