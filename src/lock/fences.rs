use std::{
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{
    node::redis::NodeSet,
    resource::Resource,
    stripe::{STRIPES, stripes},
    token::{BLOCK, TOKEN_LEAD, block_end},
};

/// The largest fences that this process knows of, for each stripe.
#[derive(Debug)]
pub(crate) struct Fences {
    /// Told or accepted by a node.
    known: Box<[AtomicU64]>,
    /// The end of the block that was asked for last: attempts that are under way at once ask for
    /// different ones. What no node accepted is not remembered longer than that.
    reserved: Box<[AtomicU64]>,
    set: Option<Arc<NodeSet>>,
}

/// Floors are set by the servers' clocks, which may be ahead of each other by so many µs.
const FLOOR_SLACK: u64 = 5_000_000;
/// The farthest that attempts under way reserve ahead of the clock and of known fences, in µs.
const RESERVED_LEAD: u64 = 1_000_000;

/// What a lease asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) token: u64,
    /// How many tokens from there on.
    pub(crate) block: u64,
}

impl Fences {
    pub(crate) fn new(set: Option<Arc<NodeSet>>) -> Self {
        let stripes = || (0..STRIPES).map(|_| AtomicU64::new(0)).collect();
        Self { known: stripes(), reserved: stripes(), set }
    }

    /// A token that is likely to be above every node's fence: the nodes' wall clock in µs, or just
    /// above what is known; and how many tokens the lease reserves.
    ///
    /// A resource that is leased more often than its blocks leave room for runs ahead of the
    /// clock: the blocks get smaller then, down to a single token. So they are while a set of nodes
    /// is new: its floor is as far ahead as tokens may be, and only time makes room above it.
    pub(crate) fn propose(&self, resource: &Resource, wall: Duration) -> Proposal {
        let wall = micros(wall);
        let known = stripes(resource).map(|stripe| self.known(stripe, wall)).max();
        let floor = self.floor(wall);
        let known = known.unwrap_or(0).max(floor);
        let limit = known.max(wall).saturating_add(RESERVED_LEAD);
        let reserved = stripes(resource)
            .map(|stripe| self.reserved[stripe].load(Ordering::Relaxed))
            .filter(|end| *end <= limit);
        let next = known.max(reserved.max().unwrap_or(0)).saturating_add(1);
        let token = wall.max(next);
        let block = block_of(token - wall, floor > wall);
        self.reserve(resource, block_end(token, block));
        Proposal { token, block }
    }

    /// What is known of a stripe. A fence so far ahead that no node takes a token above it is the
    /// work of a clock that was wrong, and is forgotten.
    fn known(&self, stripe: usize, wall: u64) -> u64 {
        let known = self.known[stripe].load(Ordering::Relaxed);
        if known <= wall.saturating_add(TOKEN_LEAD) {
            return known;
        }
        // A fence that is told meanwhile stays.
        let order = Ordering::Relaxed;
        let _ = self.known[stripe].compare_exchange(known, 0, order, order);
        0
    }

    /// Below this no node takes a token, after its probation; if a sound node can have it.
    fn floor(&self, wall: u64) -> u64 {
        let floor = self.set.as_ref().map_or(0, |set| set.floor());
        if floor <= wall.saturating_add(TOKEN_LEAD + FLOOR_SLACK) { floor } else { 0 }
    }

    /// Takes a fence that a node told.
    ///
    /// One so far ahead of the nodes' wall clock that no sound node would take a token above it is
    /// some node's fault, and must not become everyone's: it is not followed.
    pub(crate) fn see(&self, resource: &Resource, fence: u64, wall: impl FnOnce() -> Duration) {
        let known = |stripe: usize| self.known[stripe].load(Ordering::Relaxed);
        if stripes(resource).all(|stripe| fence <= known(stripe)) {
            return;
        }
        if fence <= micros(wall()).saturating_add(TOKEN_LEAD) {
            self.accepted(resource, fence);
        }
    }

    /// A node has taken a token whose block ends there.
    pub(crate) fn accepted(&self, resource: &Resource, end: u64) {
        for stripe in stripes(resource) {
            // Every node that grants says so; the first one's word is enough.
            if self.known[stripe].load(Ordering::Relaxed) < end {
                self.known[stripe].fetch_max(end, Ordering::Relaxed);
            }
        }
    }

    /// A node is asked to take a token whose block ends there: other attempts are to ask for others.
    pub(crate) fn reserve(&self, resource: &Resource, end: u64) {
        for stripe in stripes(resource) {
            self.reserved[stripe].store(end, Ordering::Relaxed);
        }
    }
}

fn micros(wall: Duration) -> u64 {
    u64::try_from(wall.as_micros()).unwrap_or(u64::MAX)
}

/// How many tokens a lease reserves whose first one is so far ahead of the nodes' wall clock, in µs.
fn block_of(lead: u64, is_new_set: bool) -> u64 {
    // What is left before nodes refuse, whose clocks may be behind.
    match TOKEN_LEAD.saturating_sub(lead) {
        10_000_000.. if is_new_set || lead < 1_000_000 => BLOCK,
        // Enough for as many grants in a row as there are by default, and the lead shrinks.
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
    fn proposals_follow_the_wall_clock_and_stay_above_what_was_seen() {
        let fences = Fences::new(None);
        let propose = |seconds| fences.propose(&resource(), Duration::from_secs(seconds)).token;
        assert_eq!(propose(1), 1_000_000);
        assert_eq!(propose(1), 1_000_256, "above the first one's block");
        fences.see(&resource(), 5_000_000, || Duration::from_secs(1));
        assert_eq!(propose(1), 5_000_001);
        assert_eq!(propose(9), 9_000_000);
    }

    #[test]
    fn a_set_is_proposed_above_the_maximum_of_its_stripes() {
        let fences = Fences::new(None);
        fences.accepted(&Resource::try_from("b").unwrap(), 700);
        let set = Resource::try_from(["a", "b"]).unwrap();
        assert_eq!(fences.propose(&set, Duration::ZERO).token, 701);
        assert_eq!(fences.propose(&resource(), Duration::ZERO).token, 957);
    }

    #[test]
    fn a_fence_out_of_all_bounds_is_not_followed() {
        let fences = Fences::new(None);
        let wall = Duration::from_secs(100);
        fences.see(&resource(), 160_000_001, || wall);
        assert_eq!(fences.propose(&resource(), wall).token, 100_000_000);
        fences.see(&resource(), 160_000_000, || wall);
        assert_eq!(fences.propose(&resource(), wall).token, 160_000_001, "just within bounds");
    }

    const AHEAD: Duration = Duration::from_secs(7_200 + 100);
    const RIGHT: Duration = Duration::from_secs(100);

    #[test]
    fn a_proposal_that_no_node_accepted_is_not_remembered() {
        let fences = Fences::new(None);
        for _ in 0..3 {
            fences.propose(&resource(), AHEAD);
        }
        assert_eq!(fences.propose(&resource(), RIGHT).token, 100_000_000);
        // Nor a raise above a fence that was far ahead, nor one that is not.
        for end in [9_000_000_000, 130_000_000] {
            fences.reserve(&resource(), end);
            assert_eq!(fences.propose(&resource(), RIGHT).token, 100_000_000);
        }
        assert_eq!(fences.propose(&resource(), RIGHT).token, 100_000_256, "one under way is");
    }

    #[test]
    fn what_was_accepted_is_forgotten_once_the_clock_went_back() {
        let fences = Fences::new(None);
        fences.accepted(&resource(), 7_300_000_255);
        assert_eq!(fences.propose(&resource(), AHEAD).token, 7_300_000_256);
        assert_eq!(fences.propose(&resource(), RIGHT).token, 100_000_000);
        fences.see(&resource(), 120_000_000, || RIGHT);
        assert_eq!(fences.propose(&resource(), RIGHT).token, 120_000_001, "fences count again");
    }

    #[test]
    fn blocks_shrink_as_room_gets_scarce_and_a_new_set_has_little_at_first() {
        let seconds = |seconds: u64| seconds * 1_000_000;
        let old = [0, 1, 50, 51, 60].map(|lead| block_of(seconds(lead), false));
        assert_eq!(old, [256, 32, 32, 1, 1]);
        let new = [60, 59, 51, 50, 1].map(|lead| block_of(seconds(lead), true));
        assert_eq!(new, [1, 16, 16, 256, 256]);
        assert_eq!(block_of(seconds(65), true), 1, "a server's clock ahead of ours");
    }

    #[test]
    fn a_resource_that_is_leased_without_a_pause_stays_within_bounds() {
        let fences = Fences::new(None);
        // 100,000 leases a second: 26 times what blocks of 256 leave room for.
        let leases =
            |from: u64| (from..from + 4_000_000).map(|lease| Duration::from_micros(lease * 10));
        let mut last = 0;
        for wall in leases(1_000_000) {
            let Proposal { token, block } = fences.propose(&resource(), wall);
            assert!(token > last, "tokens never fall back");
            last = block_end(token, block);
            fences.accepted(&resource(), last);
            assert!(
                u128::from(token) < wall.as_micros() + u128::from(TOKEN_LEAD) - 10_000_000 + 1_000
            );
        }
    }
}
