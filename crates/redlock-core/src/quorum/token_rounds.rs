//! The fencing token (R9): one round trip if a quorum accepts the proposal, otherwise raises.
//!
//! Tokens count microseconds since the epoch, below 2⁵³. A node keeps the highest number of each of
//! 1,024 stripes (FNV-1a of the name), without expiry, so its memory does not grow with the names.
//! The client proposes max(the nodes' wall clock, the largest number that it knows for the stripe +
//! 1). A node that grants, and whose fence is below the proposal, stores the end of the proposal's
//! block (256 numbers, for hand-offs within a process; more if the lease lingers) and answers
//! "accepted". If q nodes granted and accepted the same number, it is the token, after one round
//! trip. Otherwise the client raises: it sends a number above every fence it saw to all nodes that
//! granted. A node accepts it if the key still belongs to the lease and the number is above its
//! fence. Acceptances of different numbers are never added up. After three raises the attempt is
//! over.
//!
//! Why it is correct: q nodes stored the end of the block, and any later lease needs q grants. The
//! two sets share a node, and that node refuses a number at or below its fence. Reading fences
//! first and proposing later would leave a gap between the two; raising on refusals would let a
//! losing client increase fences without end.
//!
//! A shared lease has no number of its own, as shared leases must not refuse each other: its token
//! is the greatest fence. It proposes the largest fence that the client knows, nodes accept a
//! number that is not below their fence, and a raise goes to the highest fence seen. So q nodes
//! have the token as their fence then. The token is at least as great as the token of each exclusive
//! lease that was completed before, and below the token of each later one.
//!
//! A hand-off gives the next holder the next token of the block. No other lease gets a token of the
//! block, because a quorum stored its end. When the block is used up, the lock returns to the
//! nodes.

use crate::token::{TOKEN_LEAD, TOKEN_LIMIT, block_end};

/// Maximum number of raises in an attempt.
const MAX_RAISES: u8 = 3;
const _: () = assert!(MAX_RAISES < 8, "a ballot has one bit for each number");

/// The numbers proposed to the nodes, round by round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenRounds {
    /// `numbers[0]` is the proposal, `numbers[r]` the r-th raise.
    numbers: [u64; MAX_RAISES as usize + 1],
    /// Number of raises started.
    round: u8,
    block: u64,
    /// The highest fence reported, as far as a sound node can have it.
    seen: u64,
    /// The highest fence reported.
    highest: u64,
    /// For a shared lease, the nodes' wall clock.
    shared_at: Option<u64>,
}

impl TokenRounds {
    pub(super) fn new(proposal: u64, block: u64, shared_at: Option<u64>) -> Self {
        let mut numbers = [0; MAX_RAISES as usize + 1];
        numbers[0] = proposal;
        Self { numbers, round: 0, block, seen: 0, highest: 0, shared_at }
    }

    /// Returns whether it is for a shared lease.
    pub(super) fn is_shared(&self) -> bool {
        self.shared_at.is_some()
    }

    /// Returns the last token of the block that begins with this one.
    pub(super) fn block_end(&self, token: u64) -> u64 {
        block_end(token, self.block)
    }

    /// Records a node's fence. Returns whether it is so far ahead that no sound node accepts a
    /// token above it.
    pub(super) fn see(&mut self, fence: u64) -> bool {
        self.highest = self.highest.max(fence);
        let clock = self.shared_at.unwrap_or(self.numbers[0]);
        let far = fence > clock.saturating_add(TOKEN_LEAD);
        if !far {
            self.seen = self.seen.max(fence);
        }
        far
    }

    /// Returns the number of a round; 0 for a round that was not started.
    pub(super) fn number(&self, round: u8) -> u64 {
        self.numbers.get(usize::from(round)).copied().unwrap_or(0)
    }

    /// Returns the raise under way, if one is, and its number.
    pub(super) fn current_raise(&self) -> Option<(u8, u64)> {
        (self.round > 0).then(|| (self.round, self.number(self.round)))
    }

    /// Returns the rounds that were started, the latest first.
    pub(super) fn started(&self) -> impl Iterator<Item = u8> + use<> {
        (0..=self.round).rev()
    }

    /// Starts a raise above the fences: above all, or above those only that a sound node can have.
    /// Returns false where no raise is left, or no token.
    pub(super) fn start_raise(&mut self, above_all: bool) -> bool {
        let fence = if above_all { self.highest } else { self.seen };
        let last = self.number(self.round);
        let next = match self.shared_at {
            Some(_) => fence,
            None => fence.max(self.block_end(last)).saturating_add(1),
        };
        if next <= last {
            return false;
        }
        if self.round == MAX_RAISES || self.block_end(next) >= TOKEN_LIMIT {
            return false;
        }
        self.round += 1;
        self.numbers[usize::from(self.round)] = next;
        debug_assert!(
            self.shared_at.is_some() || next > self.block_end(last),
            "blocks of two rounds overlap"
        );
        debug_assert!(
            next > self.seen || (self.shared_at.is_some() && next == self.seen),
            "a raise to {next} does not reach the fence {}",
            self.seen
        );
        true
    }
}
