//! The attempt of a lease: counting of the nodes' answers, raises, verdict (R1 to R3, R9).
//!
//! * **R1: acquire.** An attempt reads t₀ and sends to all nodes at once. With q grants and `now <
//!   t₀ + validity`, the lock is held until exactly t₀ + validity. The attempt does not wait for
//!   the other answers. A late grant still counts, and is released with the others.
//! * **R2: decide.** As soon as q grants are out of reach the attempt is over. It is released at
//!   once on every node that may store its key, also on those that have not answered, before the
//!   verdict is known and before any retry. A node that refused stores none. A split vote ends like
//!   any other failure; N = 1 and N = 2 need no rules of their own.
//! * **R3: verdict and release.** `Held` means that a node reported a holder, and that the nodes
//!   that granted together with those that reported a holder are a quorum. Otherwise the verdict is
//!   `NoQuorum`. It waits, at most until the node timeout, for answers that could change it, so it
//!   does not depend on their order; the release does not wait. A release compares the nonce and
//!   deletes the key in one script, and costs the caller no round trip.

use super::{
    ballot::Ballot,
    event::{Action, LeadNode, LeaseCommand, Refusal},
    lease::{Lease, LeasePhase},
};
use crate::{
    switches::{self, Switch},
    timestamp::Timestamp,
    vote::VoteOutcome,
};

/// Decides when the lock is held, when the attempt is over, and with which verdict.
impl Lease {
    pub(super) fn send_acquire(&self, node: usize, out: &mut Vec<Action>) {
        let token = self.rounds.number(0);
        let expires = self.started + self.terms.validity;
        out.push(Action::Send { node, command: LeaseCommand::Acquire { token, expires } });
    }

    /// Asks the lead node alone. It grants to one of several contenders; the others have asked one
    /// node and hold nothing, while requests to all nodes at once may split the votes.
    pub(super) fn ask_lead(
        &mut self,
        LeadNode { node, max_delay }: LeadNode,
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        self.asked_lead = Some((node, now + max_delay));
        for (_, ballot) in self.ballots.iter_mut().filter(|(other, _)| *other != node) {
            *ballot = Ballot::unasked();
        }
        self.send_acquire(node, out);
    }

    /// Handles the lead node's answer. Returns whether only the lead node has a request so far: its
    /// answer alone decides nothing but a refusal.
    fn waits_for_lead(&mut self, now: Timestamp, out: &mut Vec<Action>) -> bool {
        let Some((lead, until)) = self.asked_lead else { return false };
        let ballot = &self.ballots[lead];
        match &ballot.vote {
            Some(VoteOutcome::Held { owner, remaining }) => {
                let (expires_in, owner) = (*remaining, owner.clone());
                let (lingers, readers) = (ballot.lingers, ballot.readers);
                let waiter = ballot.waiter.clone();
                let refusal = Refusal::Held { expires_in, owner, lingers, readers, waiter };
                self.asked_lead = None;
                self.refused_by_lead = true;
                self.send_releases(out);
                self.conclude(refusal, out);
            }
            None if now < until => {}
            _ => {
                self.asked_lead = None;
                self.timeout_at = now + self.terms.node_timeout;
                for node in (0..self.ballots.len()).filter(|node| *node != lead) {
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
        let late = now.saturating_duration_since(self.timeout_at) >= self.terms.node_timeout / 8;
        let timeout_at = now + self.terms.node_timeout / 2;
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
                    self.valid_until = now + self.terms.validity;
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
        if !self.terms.is_fenced {
            Some(0)
        } else if switches::is_out(Switch::RaiseRound) {
            Some(self.rounds.number(0))
        } else {
            self.ballots.agreed_number(&self.rounds)
        }
    }

    fn hold(&mut self, token: u64, out: &mut Vec<Action>) {
        self.phase = LeasePhase::Held;
        self.token = token;
        self.last_token = self.rounds.block_end(token);
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
        self.timeout_at = now + self.terms.node_timeout;
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

    /// Releases wherever a key may be stored, before the verdict is known and before any retry.
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
            let lingers = self.ballots.count(|ballot| ballot.lingers) > 0;
            let (readers, waiter) = (self.ballots.readers(), self.ballots.waiter());
            self.conclude(Refusal::Held { expires_in, owner, lingers, readers, waiter }, out);
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
