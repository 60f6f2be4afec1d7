//! When the lock is held, when an attempt is over, and what is said of it.

use std::{sync::Arc, time::Duration};

use super::{
    ballot::{self, Ballot, count},
    event::{Action, Refusal},
    lease::{Lease, Phase},
};
use crate::{
    error::{Reason, VoteOutcome},
    protocol::{Answer, GrantedAnswer, HeldAnswer, names::View},
    time::Timestamp,
    token::block_end,
};

impl Lease {
    pub(super) fn on_vote(
        &mut self,
        node: usize,
        (result, view): (Result<Answer, Reason>, Option<Arc<View>>),
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        let ballot = &mut self.ballots[node];
        // The first answer stands; only a node that was given up may still speak.
        let timed_out = Some(VoteOutcome::NotCounted(Reason::TimedOut));
        if !ballot.is_pending() && ballot.vote != timed_out {
            return;
        }
        match result {
            Ok(Answer::Granted(GrantedAnswer { accepted, fence })) => {
                ballot.vote = Some(VoteOutcome::Granted);
                ballot.confirm(self.started);
                ballot.view = view;
                ballot.accepted |= u8::from(accepted);
                ballot.far = self.fence.see(fence);
            }
            Ok(Answer::Held(HeldAnswer { owner, remaining, fence })) => {
                ballot.vote = Some(VoteOutcome::Held { owner, remaining });
                ballot.rule_out(None);
                self.fence.see(fence);
            }
            Ok(_) => {
                let reason = Reason::Protocol("not an answer to an acquire".into());
                ballot.vote = Some(VoteOutcome::NotCounted(reason));
            }
            Err(reason) => {
                if !reason.may_have_run() {
                    ballot.rule_out(None);
                }
                ballot.vote = Some(VoteOutcome::NotCounted(reason));
            }
        }
        match self.phase {
            Phase::Acquiring => self.decide(now, out),
            Phase::Settling => self.settle(now, out),
            Phase::Held | Phase::Lost | Phase::Ended => {}
        }
    }

    pub(super) fn on_attempt_wake(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        if self.phase == Phase::Acquiring && self.waits_for_lead(now, out) {
            return;
        }
        if now < self.timeout_at || self.grant_grace(now) {
            return;
        }
        for ballot in &mut self.ballots {
            ballot.vote.get_or_insert(VoteOutcome::NotCounted(Reason::TimedOut));
            ballot.raising = 0;
        }
        match self.phase {
            Phase::Acquiring => self.decide(now, out),
            _ => self.settle(now, out),
        }
    }

    /// A wake-up that comes late says that this process stood still, and not the nodes: their
    /// answers may lie unread. They get another half of the node timeout, once in an attempt. This
    /// is patience alone; the validity counts from the start all the same.
    fn grant_grace(&mut self, now: Timestamp) -> bool {
        let late = now.saturating_duration_since(self.timeout_at) >= self.terms.node_timeout / 8;
        if !late || self.grace_used {
            return false;
        }
        let timeout_at = now + self.terms.node_timeout / 2;
        if timeout_at >= self.end() {
            return false;
        }
        self.grace_used = true;
        self.timeout_at = timeout_at;
        true
    }

    /// R1 and R2: held with a quorum inside the validity; over as soon as that is out of reach.
    pub(super) fn decide(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        if self.waits_for_lead(now, out) {
            return;
        }
        let granted = self.counted();
        let pending = count(&self.ballots, Ballot::is_pending);
        if granted >= self.quorum {
            if let Some(token) = self.agreed_token() {
                // The comparison with the clock comes last, after everything that takes time.
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
        } else if granted + pending >= self.quorum {
            return;
        }
        self.give_up(out);
        self.settle(now, out);
    }

    fn hold(&mut self, token: u64, out: &mut Vec<Action>) {
        self.phase = Phase::Held;
        self.token = token;
        self.last_token = block_end(token, self.terms.block);
        self.schedule_renewal();
        out.push(Action::Acquired { token, until: self.end() });
    }

    /// Releases everywhere at once, before the verdict is known and before any retry.
    fn give_up(&mut self, out: &mut Vec<Action>) {
        self.phase = Phase::Settling;
        self.send_releases(out);
    }

    /// R14: how many grants count together.
    pub(super) fn counted(&self) -> usize {
        ballot::count_together(&self.ballots, Ballot::is_granted)
    }

    /// R3: the verdict must not depend on the order of the answers, so it waits (at most until the
    /// node timeout) for those that can still change it.
    fn settle(&mut self, now: Timestamp, out: &mut Vec<Action>) {
        let granted = count(&self.ballots, Ballot::is_granted);
        let held = count(&self.ballots, Ballot::is_held);
        let pending = count(&self.ballots, Ballot::is_pending);
        if held > 0 && granted + held >= self.quorum {
            let refusal = Refusal::Held {
                expires_in: self.free_after(),
                owner: ballot::main_owner(&self.ballots),
            };
            self.conclude(refusal, out);
        } else if pending == 0 || granted + held + pending < self.quorum || now >= self.timeout_at {
            ballot::rule_out_strangers(&mut self.ballots);
            let votes = ballot::shown(&self.ballots);
            self.conclude(Refusal::NoQuorum { votes }, out);
        }
    }

    fn conclude(&mut self, refusal: Refusal, out: &mut Vec<Action>) {
        self.phase = Phase::Ended;
        out.push(Action::Refused(refusal));
    }

    /// When a quorum of nodes would be free if nobody renewed.
    fn free_after(&self) -> Option<Duration> {
        let mut remaining: Vec<Option<Duration>> = self
            .ballots
            .iter()
            .filter_map(|ballot| match ballot.vote {
                Some(VoteOutcome::Held { remaining, .. }) => Some(remaining),
                _ => None,
            })
            .collect();
        remaining.sort_unstable_by_key(|left| left.unwrap_or(Duration::MAX));
        // A node whose vote does not count is not free.
        let free = count(&self.ballots, |ballot| ballot.is_granted() || ballot.is_pending());
        match self.quorum.checked_sub(free + 1) {
            Some(last_to_expire) => remaining.get(last_to_expire).copied().flatten(),
            None => Some(Duration::ZERO),
        }
    }
}
