//! The fencing token: one round trip where the proposal is accepted, a raise where it is not.
//!
//! A quorum that granted *and* stored the same number makes that number larger than the token of
//! every lease that was completed before: two quorums share a node, and that node would not have
//! accepted a number at or below its fence. Acceptances of different numbers are never added up.

use std::sync::Arc;

use super::{
    ballot::{Ballot, count_together},
    event::{Action, Command},
    lease::{Lease, Phase},
};
use crate::{
    error::{Reason, VoteOutcome},
    protocol::{Answer, RaisedAnswer, names::View},
    time::Timestamp,
    token::{TOKEN_LEAD, TOKEN_LIMIT, block_end},
};

/// After so many raises the attempt is given up and tried anew.
const MAX_RAISES: u8 = 3;

#[derive(Debug)]
pub(super) struct Fence {
    /// `numbers[0]` is the proposal, `numbers[r]` the r-th raise.
    numbers: [u64; MAX_RAISES as usize + 1],
    /// How many raises were started.
    round: u8,
    block: u64,
    /// The highest fence that a node told, as far as a sound node can have it.
    seen: u64,
    /// The highest fence of all.
    highest: u64,
}

impl Fence {
    pub(super) fn new(proposal: u64, block: u64) -> Self {
        let mut numbers = [0; MAX_RAISES as usize + 1];
        numbers[0] = proposal;
        Self { numbers, round: 0, block, seen: 0, highest: 0 }
    }

    /// Takes a node's fence; true if it lies so far ahead that no sound node takes a token above it.
    pub(super) fn see(&mut self, fence: u64) -> bool {
        self.highest = self.highest.max(fence);
        let far = fence > self.numbers[0].saturating_add(TOKEN_LEAD);
        if !far {
            self.seen = self.seen.max(fence);
        }
        far
    }
}

impl Lease {
    /// The number that was asked for in a round: the proposal is that of round 0.
    pub fn number(&self, round: u8) -> u64 {
        self.fence.numbers.get(usize::from(round)).copied().unwrap_or(0)
    }

    /// The largest number that a quorum granted and accepted.
    pub(super) fn agreed_token(&self) -> Option<u64> {
        if self.terms.proposal.is_none() {
            return Some(0);
        }
        (0..=self.fence.round).rev().find_map(|round| {
            let accepted = |b: &Ballot| b.is_granted() && b.accepted & bit(round) != 0;
            let accepted = count_together(&self.ballots, accepted);
            (accepted >= self.quorum).then(|| self.fence.numbers[usize::from(round)])
        })
    }

    /// Asks the granting nodes for a number above every fence seen; those that grant later join
    /// in. False when no raise can succeed any more.
    ///
    /// Fences that are far ahead are left out where a quorum is to be had without them: a number
    /// above them is one that the sound nodes don't take.
    pub(super) fn raise(&mut self, pending: usize, now: Timestamp, out: &mut Vec<Action>) -> bool {
        let round = self.fence.round;
        if round > 0 {
            self.ask(round, out);
            let mask = bit(round);
            // Nodes that have not voted are not waited for: one of them may hang.
            let possible = count_together(&self.ballots, |b| {
                b.is_granted() && (b.accepted | b.raising) & mask != 0
            });
            if possible >= self.quorum {
                return true;
            }
        }
        let near = count_together(&self.ballots, |ballot| ballot.is_granted() && !ballot.far);
        if near < self.quorum && pending > 0 {
            return true;
        }
        let fence = if near < self.quorum { self.fence.highest } else { self.fence.seen };
        let block = self.fence.block;
        let last = self.fence.numbers[usize::from(round)];
        let next = fence.max(block_end(last, block)).saturating_add(1);
        if round == MAX_RAISES || block_end(next, block) >= TOKEN_LIMIT {
            for ballot in self.ballots.iter_mut().filter(|b| b.is_granted()) {
                let reason = ballot.raise_error.take().unwrap_or(Reason::FenceAhead);
                ballot.vote = Some(VoteOutcome::NotCounted(reason));
            }
            return false;
        }
        self.fence.round += 1;
        self.fence.numbers[usize::from(self.fence.round)] = next;
        self.timeout_at = now + self.terms.node_timeout;
        self.ask(self.fence.round, out);
        true
    }

    fn ask(&mut self, round: u8, out: &mut Vec<Action>) {
        let token = self.fence.numbers[usize::from(round)];
        let mask = bit(round);
        for (node, ballot) in self.ballots.iter_mut().enumerate() {
            let asked = ballot.asked & mask != 0;
            if ballot.is_granted() && !asked {
                ballot.asked |= mask;
                ballot.raising |= mask;
                Self::send(node, Command::Raise { round, token }, out);
            }
        }
    }

    pub(super) fn on_raise(
        &mut self,
        node: usize,
        round: u8,
        (result, view): (&Result<Answer, Reason>, Option<Arc<View>>),
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        let ballot = &mut self.ballots[node];
        ballot.raising &= !bit(round);
        match result {
            // It is not sure any more that the grant and the fence are of one server.
            Ok(Answer::Raised(_)) if ballot.is_granted() && ballot.view != view => {
                ballot.vote = Some(VoteOutcome::NotCounted(Reason::NamesDiffer));
                ballot.confirmed = None;
            }
            Ok(Answer::Raised(RaisedAnswer { accepted, fence })) => {
                if *accepted {
                    ballot.accepted |= bit(round);
                }
                ballot.far = self.fence.see(*fence);
            }
            // The key is not ours there any more: the grant counts no longer.
            Err(Reason::KeyGone) => {
                ballot.vote = Some(VoteOutcome::NotCounted(Reason::KeyGone));
                ballot.confirmed = None;
            }
            Err(reason) => ballot.raise_error = Some(reason.clone()),
            Ok(_) => {}
        }
        match self.phase {
            Phase::Acquiring => self.decide(now, out),
            // A straggler may have taken a confirmation back.
            Phase::Held => {
                self.find_disputed();
            }
            Phase::Settling | Phase::Lost | Phase::Ended => {}
        }
    }
}

const fn bit(round: u8) -> u8 {
    1 << round
}

const _: () = assert!(MAX_RAISES < 8, "a ballot keeps one bit for each number");
