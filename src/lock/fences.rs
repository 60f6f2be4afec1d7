//! The fencing tokens that attempts propose (R9).
//!
//! *The nodes' wall clock* is the latest time that the clocks of q connected nodes have reached
//! (the q-th largest). A minority of wrong clocks does not move it beyond a correct clock, and q
//! nodes accept a token made of it. A server's clock is known as an offset to the client's
//! monotonic clock, from the readings of R10; the client's wall clock and its jumps have no
//! influence. The client's wall clock is used only for nodes without a clock of their own, and
//! before the first connection: an attempt of a client that is far ahead fails then, and the error
//! reports it. The clocks are compared at each health check. If q servers agree, a clock (of the
//! client or a server) that is off by more than 60 s is logged once, and shown in `health()`
//! (`Finding`) until it is right. Embedded nodes read a wall clock that is never set back.
//!
//! Only numbers that a node accepted or reported are remembered. Proposals of attempts in flight
//! are reserved, so that other attempts of the process propose other numbers; a reservation more
//! than 1 s ahead of the clock and the known fences is ignored. A known fence more than 60 s ahead
//! of the nodes' clock is forgotten: the clock went back, and no node accepts a token above it. If
//! a quorum keeps such fences (the clocks of a majority were ahead together), the names used
//! meanwhile get no token until real time is within 60 s of them.
//!
//! Two bounds keep one fault from affecting everything. No node gets a token more than 60 s ahead
//! of its own clock: a client compares the token of an acquire with its reading of that clock, and
//! the script of a raise with the clock itself. A fence beyond that (of a node whose clock was
//! wrong once) is not followed: the client proposes the nodes' clock, and raises above the fences
//! of the other nodes, which suffice. And a resource that is leased more than 3,906 times a second
//! would outrun the clock with blocks of 256: blocks shrink to 32 and to one token as the lead
//! grows beyond 1 s and 50 s. The tokens of a new set start 60 s ahead (R6), and have whole blocks
//! until then.

use std::{sync::Arc, time::Duration};

use crate::{
    node::redis::NodeSet,
    resource::Resource,
    stripe::STRIPES,
    sync::atomic::{AtomicU64, Ordering},
    token::{BLOCK, TOKEN_LEAD, block_end},
};

/// The largest known fences, by stripe.
#[derive(Debug)]
pub(crate) struct Fences {
    /// Fences that a node reported or accepted.
    known: Box<[AtomicU64]>,
    /// End of the block that was proposed last, so that concurrent attempts propose different ones.
    reserved: Box<[AtomicU64]>,
    set: Option<Arc<NodeSet>>,
}

/// Maximum number of tokens that a lease reserves if it lingers. Each holder after a linger takes
/// one, and a process may need no more than a µs for that. Without one left, the lease goes back to
/// the nodes.
const LINGER_BLOCK: u64 = 16 * BLOCK;
/// Maximum difference between servers' clocks, which set floors, in µs.
const FLOOR_SLACK: u64 = 5_000_000;
/// Maximum lead of reservations before the clock and known fences, in µs.
const RESERVED_LEAD: u64 = 1_000_000;

/// The tokens that a lease proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) token: u64,
    /// Number of tokens, from `token` on.
    pub(crate) block: u64,
}

impl Fences {
    pub(crate) fn new(set: Option<Arc<NodeSet>>) -> Self {
        let stripes = || (0..STRIPES).map(|_| AtomicU64::new(0)).collect();
        Self { known: stripes(), reserved: stripes(), set }
    }

    /// Returns a token that is likely above every node's fence: the nodes' wall clock in µs, or
    /// just above the known fences.
    ///
    /// If leases are so frequent that their blocks exceed the clock, blocks get smaller, down to a
    /// single token. They are also small in a new set of nodes, whose floor is at the maximum lead.
    /// `most` is the maximum length of the block.
    pub(crate) fn propose(&self, resource: &Resource, wall: Duration, most: u64) -> Proposal {
        let wall = micros(wall);
        let known = resource.stripes().map(|stripe| self.known(stripe, wall)).max();
        let floor = self.floor(wall);
        let known = known.unwrap_or(0).max(floor);
        let limit = known.max(wall).saturating_add(RESERVED_LEAD);
        let reserved = resource
            .stripes()
            .map(|stripe| self.reserved[stripe].load(Ordering::Relaxed))
            .filter(|end| *end <= limit);
        let next = known.max(reserved.max().unwrap_or(0)).saturating_add(1);
        let token = wall.max(next);
        let block = block_of(token - wall, floor > wall, BLOCK.max(most)).min(most);
        self.reserve(resource, block_end(token, block));
        Proposal { token, block }
    }

    /// Returns the largest known fence, for a shared lease, which has no token of its own.
    pub(crate) fn propose_shared(&self, resource: &Resource, wall: Duration) -> Proposal {
        let known = resource.stripes().map(|stripe| self.known(stripe, micros(wall))).max();
        Proposal { token: known.unwrap_or(0).max(1), block: 1 }
    }

    /// Returns the known fence of a stripe. A fence so far ahead that no node accepts a token above
    /// it was set by a wrong clock, and is forgotten.
    fn known(&self, stripe: usize, wall: u64) -> u64 {
        let known = self.known[stripe].load(Ordering::Relaxed);
        if known <= wall.saturating_add(TOKEN_LEAD) {
            return known;
        }
        // Keeps a fence that was stored meanwhile.
        let order = Ordering::Relaxed;
        let _ = self.known[stripe].compare_exchange(known, 0, order, order);
        0
    }

    /// Returns whether a node whose clock shows `wall` accepts a token above the known fences.
    pub(crate) fn are_acceptable(&self, resource: &Resource, wall: Duration) -> bool {
        let limit = micros(wall).saturating_add(TOKEN_LEAD);
        resource.stripes().all(|stripe| self.known[stripe].load(Ordering::Relaxed) < limit)
    }

    /// Returns the floor of tokens after a probation, unless it comes from a wrong clock.
    fn floor(&self, wall: u64) -> u64 {
        let floor = self.set.as_ref().map_or(0, |set| set.floor());
        if floor <= wall.saturating_add(TOKEN_LEAD + FLOOR_SLACK) { floor } else { 0 }
    }

    /// Stores a fence that a node reported, unless it is so far ahead of the nodes' wall clock that
    /// it comes from a wrong clock.
    pub(crate) fn see(&self, resource: &Resource, fence: u64, wall: impl FnOnce() -> Duration) {
        let known = |stripe: usize| self.known[stripe].load(Ordering::Relaxed);
        if fence == 0 || resource.stripes().all(|stripe| fence <= known(stripe)) {
            return;
        }
        if fence <= micros(wall()).saturating_add(TOKEN_LEAD) {
            self.accepted(resource, fence);
        }
    }

    /// Stores the end of a block that a node accepted.
    pub(crate) fn accepted(&self, resource: &Resource, end: u64) {
        for stripe in resource.stripes() {
            if self.known[stripe].load(Ordering::Relaxed) < end {
                self.known[stripe].fetch_max(end, Ordering::Relaxed);
            }
        }
    }

    /// Stores the end of a proposed block, so that other attempts propose others.
    pub(crate) fn reserve(&self, resource: &Resource, end: u64) {
        for stripe in resource.stripes() {
            self.reserved[stripe].store(end, Ordering::Relaxed);
        }
    }
}

/// Returns the maximum number of tokens for a lease that is handed on. One that may linger gets up to a token for
/// each µs of it.
pub(crate) fn block_for(linger: Option<Duration>) -> u64 {
    micros(linger.unwrap_or_default()).clamp(BLOCK, LINGER_BLOCK)
}

fn micros(wall: Duration) -> u64 {
    u64::try_from(wall.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the number of tokens that a lease reserves, at most `most`, by the lead of the first token
/// before the nodes' wall clock, in µs.
fn block_of(lead: u64, is_new_set: bool, most: u64) -> u64 {
    // Compares the rest of the maximum lead, because nodes' clocks may be behind.
    match TOKEN_LEAD.saturating_sub(lead) {
        10_000_000.. if lead < 1_000_000 => most,
        10_000_000.. if is_new_set => BLOCK,
        // Enough tokens for the default number of hand-offs, while the lead shrinks.
        10_000_000.. => BLOCK / 8,
        1_000_000.. if is_new_set => BLOCK / 16,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource() -> Resource {
        Resource::try_from("a").unwrap()
    }

    #[test]
    fn proposals_follow_clock_and_fences() {
        let fences = Fences::new(None);
        let propose =
            |seconds| fences.propose(&resource(), Duration::from_secs(seconds), BLOCK).token;
        assert_eq!(propose(1), 1_000_000);
        assert_eq!(propose(1), 1_000_256, "above the first block");
        fences.see(&resource(), 5_000_000, || Duration::from_secs(1));
        assert_eq!(propose(1), 5_000_001);
        assert_eq!(propose(9), 9_000_000);
    }

    #[test]
    fn sets_exceed_all_their_stripes() {
        let fences = Fences::new(None);
        fences.accepted(&Resource::try_from("b").unwrap(), 700);
        let set = Resource::try_from(["a", "b"]).unwrap();
        assert_eq!(fences.propose(&set, Duration::ZERO, BLOCK).token, 701);
        assert_eq!(fences.propose(&resource(), Duration::ZERO, BLOCK).token, 957);
    }

    #[test]
    fn fences_out_of_bounds_are_ignored() {
        let fences = Fences::new(None);
        let wall = Duration::from_secs(100);
        fences.see(&resource(), 160_000_001, || wall);
        assert_eq!(fences.propose(&resource(), wall, BLOCK).token, 100_000_000);
        fences.see(&resource(), 160_000_000, || wall);
        assert_eq!(
            fences.propose(&resource(), wall, BLOCK).token,
            160_000_001,
            "just within bounds"
        );
    }

    const AHEAD: Duration = Duration::from_secs(7_200 + 100);
    const RIGHT: Duration = Duration::from_secs(100);

    #[test]
    fn unaccepted_proposals_are_forgotten() {
        let fences = Fences::new(None);

        for _ in 0..3 {
            fences.propose(&resource(), AHEAD, BLOCK);
        }
        assert_eq!(fences.propose(&resource(), RIGHT, BLOCK).token, 100_000_000);

        // Nor are raises.
        for end in [9_000_000_000, 130_000_000] {
            fences.reserve(&resource(), end);
            assert_eq!(fences.propose(&resource(), RIGHT, BLOCK).token, 100_000_000);
        }

        assert_eq!(
            fences.propose(&resource(), RIGHT, BLOCK).token,
            100_000_256,
            "one in flight is kept"
        );
    }

    #[test]
    fn clock_reset_forgets_accepted_tokens() {
        let fences = Fences::new(None);
        fences.accepted(&resource(), 7_300_000_255);
        assert_eq!(fences.propose(&resource(), AHEAD, BLOCK).token, 7_300_000_256);
        assert_eq!(fences.propose(&resource(), RIGHT, BLOCK).token, 100_000_000);
        fences.see(&resource(), 120_000_000, || RIGHT);
        assert_eq!(
            fences.propose(&resource(), RIGHT, BLOCK).token,
            120_000_001,
            "fences count again"
        );
    }

    #[test]
    fn node_far_behind_does_not_suit() {
        let fences = Fences::new(None);
        fences.accepted(&resource(), 150_000_000);
        let suits = |micros| fences.are_acceptable(&resource(), Duration::from_micros(micros));
        assert!(suits(90_000_001), "the next token is at the limit");
        assert!(!suits(90_000_000) && !suits(0));
        assert!(fences.are_acceptable(&Resource::try_from("b").unwrap(), Duration::ZERO));
    }

    #[test]
    fn blocks_shrink_with_the_room() {
        let seconds = |seconds: u64| seconds * 1_000_000;
        let old = [0, 1, 50, 51, 60].map(|lead| block_of(seconds(lead), false, BLOCK));
        assert_eq!(old, [256, 32, 32, 1, 1]);
        let new = [60, 59, 51, 50, 1].map(|lead| block_of(seconds(lead), true, BLOCK));
        assert_eq!(new, [1, 16, 16, 256, 256]);
        assert_eq!(block_of(seconds(65), true, BLOCK), 1, "a server's clock ahead of ours");
        let lingering = |is_new| {
            let leads = [0, 999_999, 1_000_000, 50_000_001];
            leads.map(|lead| block_of(lead, is_new, LINGER_BLOCK))
        };
        assert_eq!(lingering(false), [4_096, 4_096, 32, 1]);
        assert_eq!(lingering(true), [4_096, 4_096, 256, 16]);
    }

    #[test]
    fn frequent_leases_stay_within_bounds() {
        let fences = Fences::new(None);
        // 100,000 leases a second: 26 times what blocks of 256 leave room for.
        let leases =
            |from: u64| (from..from + 4_000_000).map(|lease| Duration::from_micros(lease * 10));
        let mut last = 0;

        for wall in leases(1_000_000) {
            let Proposal { token, block } = fences.propose(&resource(), wall, BLOCK);
            assert!(token > last, "tokens never fall back");
            last = block_end(token, block);
            fences.accepted(&resource(), last);
            assert!(
                u128::from(token) < wall.as_micros() + u128::from(TOKEN_LEAD) - 10_000_000 + 1_000
            );
        }
    }
}
