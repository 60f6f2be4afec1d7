//! A model of R6's lowering of `max_ttl`: three nodes, of which one may forget at a time, a client
//! of long TTLs and one of short ones, and runs that lower `max_ttl`, in random walks.
//!
//! With the whole rule the two clients never hold the lock at once; without any part of it they do.

use std::{cmp::Reverse, ops::Range};

const NODES: usize = 3;
const QUORUM: usize = 2;
/// The shorter TTL, in ticks of the model.
const SHORT: u32 = 2;
const LONG: u32 = 5;
const TTLS: [u32; 2] = [SHORT, LONG];
const STEPS: usize = 80;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LoweringRule {
    Whole,
    /// Probations don't wait for what `max_ttl` was before.
    OldValueForgotten,
    /// What it was before is cleared at once.
    ClearedAtOnce,
    /// Renewals above `max_ttl` are taken.
    RenewalsUnchecked,
    /// A run clears what another one keeps.
    NoNonce,
}

#[derive(Clone, Copy, Default)]
struct TtlNode {
    max_ttl: u32,
    /// The former value, and the run that lowered it.
    longer: Option<(u32, u32)>,
    /// The holder of the key, and when it expires.
    key: Option<(usize, u32)>,
    probation_since: Option<u32>,
}

impl TtlNode {
    fn is_active(&self) -> bool {
        self.probation_since.is_none()
    }

    fn longest(&self) -> u32 {
        self.max_ttl.max(self.longer.map_or(0, |(longer, _)| longer))
    }

    fn is_free_for(&self, client: usize, now: u32) -> bool {
        self.key.is_none_or(|(holder, until)| holder == client || until <= now)
    }
}

/// A run that lowers `max_ttl`: when it began, and how long it waits.
#[derive(Clone, Copy)]
struct LoweringRun {
    number: u32,
    since: u32,
    wait: u32,
}

struct MaxTtlWorld {
    rule: LoweringRule,
    random: u64,
    now: u32,
    nodes: [TtlNode; NODES],
    /// When each node last granted or renewed each client's lease.
    leases: [[Option<u32>; NODES]; 2],
    runs: Vec<LoweringRun>,
    last_run: u32,
}

impl MaxTtlWorld {
    fn new(rule: LoweringRule, seed: u64) -> Self {
        let nodes = [TtlNode { max_ttl: LONG, ..TtlNode::default() }; NODES];
        let leases = [[None; NODES]; 2];
        Self { rule, random: seed, now: 0, nodes, leases, runs: Vec::new(), last_run: 0 }
    }

    /// `SplitMix64`.
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).expect("it is below a usize")
    }

    /// Nodes that a message reaches just now.
    fn reached(&mut self) -> Vec<usize> {
        (0..NODES).filter(|_| self.below(4) > 0).collect()
    }

    fn holds(&self, client: usize) -> bool {
        let mut starts: Vec<u32> = self.leases[client].iter().flatten().copied().collect();
        starts.sort_unstable_by_key(|start| Reverse(*start));
        starts.get(QUORUM - 1).is_some_and(|start| self.now < start + TTLS[client])
    }

    fn acquire(&mut self, client: usize) {
        if self.holds(client) {
            return;
        }
        let (now, ttl) = (self.now, TTLS[client]);
        let mut grants = [None; NODES];
        for node in self.reached() {
            let at = &mut self.nodes[node];
            if at.is_active() && at.max_ttl >= ttl && at.is_free_for(client, now) {
                at.key = Some((client, now + ttl));
                grants[node] = Some(now);
            }
        }
        self.leases[client] = grants;
        if !self.holds(client) {
            self.leases[client] = [None; NODES];
            let is_ours =
                |node: &&mut TtlNode| node.key.is_some_and(|(holder, _)| holder == client);
            self.nodes.iter_mut().filter(is_ours).for_each(|node| node.key = None);
        }
    }

    fn renew(&mut self, client: usize) {
        if !self.holds(client) {
            return;
        }
        let (now, ttl, unchecked) =
            (self.now, TTLS[client], self.rule == LoweringRule::RenewalsUnchecked);
        for node in self.reached() {
            let at = &mut self.nodes[node];
            let granted = unchecked || at.max_ttl >= ttl;
            if at.is_active() && granted && at.is_free_for(client, now) {
                at.key = Some((client, now + ttl));
                self.leases[client][node] = Some(now);
            }
        }
    }

    /// The client of long TTLs raises what was lowered.
    fn raise(&mut self) {
        let quorum = self.nodes.iter().filter(|node| node.is_active()).count() >= QUORUM;
        for node in self.reached() {
            if quorum || !self.nodes[node].is_active() {
                self.nodes[node].max_ttl = LONG;
            }
        }
    }

    fn lower(&mut self) {
        self.last_run += 1;
        let mut run = LoweringRun { number: self.last_run, since: self.now, wait: 0 };
        for node in self.reached() {
            let at = &mut self.nodes[node];
            if at.longest() > SHORT {
                run.wait = run.wait.max(at.longest());
                at.longer = Some((at.longest(), run.number));
                at.max_ttl = at.max_ttl.min(SHORT);
            }
        }
        self.runs.push(run);
    }

    fn clear(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let chosen = self.below(self.runs.len());
        let run = self.runs[chosen];
        let wait = if self.rule == LoweringRule::ClearedAtOnce { 0 } else { run.wait };
        if self.now < run.since + wait {
            return;
        }
        self.runs.remove(chosen);
        let any = self.rule == LoweringRule::NoNonce;
        for node in self.reached() {
            let longer = &mut self.nodes[node].longer;
            *longer = longer.filter(|(_, number)| !any && *number != run.number);
        }
    }

    fn forget(&mut self) {
        let node = self.below(NODES);
        if self.nodes.iter().all(TtlNode::is_active) {
            let since = Some(self.now);
            self.nodes[node] =
                TtlNode { max_ttl: SHORT, probation_since: since, ..TtlNode::default() };
        }
    }

    fn activate(&mut self) {
        let known = |node: &TtlNode| match self.rule {
            LoweringRule::OldValueForgotten => node.max_ttl,
            _ => node.longest(),
        };
        // It can learn from the other nodes only.
        let wait = self.nodes.iter().map(known).max().unwrap_or(SHORT);
        let max_ttl = self.nodes.iter().map(|node| node.max_ttl).max().unwrap_or(SHORT);
        let now = self.now;
        for node in &mut self.nodes {
            if node.probation_since.is_some_and(|since| now >= since + wait) {
                (node.probation_since, node.max_ttl) = (None, max_ttl);
            }
        }
    }

    fn step(&mut self) {
        match self.below(12) {
            0..=3 => self.now += 1,
            4 => self.acquire(0),
            5 => self.acquire(1),
            6 => self.renew(0),
            7 => self.renew(1),
            8 if self.below(4) == 0 => self.raise(),
            // Two at once are rare.
            8 if self.runs.is_empty() || self.below(10) == 0 => self.lower(),
            8 | 9 => self.clear(),
            10 => self.forget(),
            _ => self.activate(),
        }
    }

    fn has_two_holders(&self) -> bool {
        self.holds(0) && self.holds(1)
    }
}

/// Returns the first walk in which two hold the lock at once.
fn violation(rule: LoweringRule, seeds: Range<u64>) -> Option<u64> {
    seeds.into_iter().find(|seed| {
        let mut world = MaxTtlWorld::new(rule, seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
        (0..STEPS).any(|_| {
            world.step();
            world.has_two_holders()
        })
    })
}

#[test]
fn one_holder_at_a_time() {
    assert_eq!(violation(LoweringRule::Whole, 0..30_000), None);
}

#[test]
fn each_part_is_needed() {
    let parts = [
        LoweringRule::OldValueForgotten,
        LoweringRule::ClearedAtOnce,
        LoweringRule::RenewalsUnchecked,
        LoweringRule::NoNonce,
    ];

    for rule in parts {
        assert!(violation(rule, 0..100_000).is_some(), "{rule:?} is as good as the whole rule");
    }
}
