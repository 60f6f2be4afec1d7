//! One start per tick, whatever becomes of messages, and of nodes that forget and learn again.

use std::{collections::HashMap, time::Duration};

use proptest::prelude::*;

use super::safety::config;
use crate::{
    node::{TickClaim, TickRun},
    quorum::{
        claims::{Latest, Standing, standing},
        rules,
    },
};

fn run_of(tick: u64) -> TickRun {
    TickRun::new(Duration::from_millis(tick), 1, Duration::from_millis(1))
}

fn claim(token: u64, tick: u64, before: Option<u64>) -> TickClaim {
    TickClaim::new(token, run_of(tick), format!("replica {token}").into(), before.map(run_of))
}

fn latest(claim: &TickClaim) -> Latest {
    Latest { run: claim.run, owner: Some(claim.owner.clone()) }
}

/// The tick that the latest claim names as the one before it.
fn tick_before(tick: u64) -> Standing {
    Standing::Known(Some(Latest { run: run_of(tick), owner: None }))
}

fn of(told: &[Option<&TickClaim>], nodes: usize) -> Standing {
    standing(told.iter().copied(), nodes, &[])
}

#[test]
fn a_claim_that_a_majority_keeps_is_the_latest_whoever_else_is_silent() {
    let (a, b) = (claim(5, 100, Some(90)), claim(4, 90, None));
    assert_eq!(of(&[Some(&a), Some(&a)], 3), Standing::Known(Some(latest(&a))));
    let told = [Some(&a), Some(&a), Some(&b), Some(&a)];
    assert_eq!(of(&told, 5), Standing::Known(Some(latest(&a))));
}

#[test]
fn a_split_vote_burns_no_tick() {
    let [a, b, c] = [5, 6, 7].map(|token| claim(token, 100, Some(50)));
    assert_eq!(of(&[Some(&a), Some(&b), None], 3), tick_before(50));
    let kept = claim(1, 50, None);
    assert_eq!(of(&[Some(&a), Some(&b), Some(&c), Some(&kept), Some(&kept)], 5), tick_before(50));
    // Also where nobody keeps the one before any more.
    assert_eq!(of(&[Some(&a), Some(&b), Some(&c)], 3), tick_before(50));
}

#[test]
fn a_claim_that_silent_nodes_could_complete_counts_until_they_speak() {
    let (a, kept) = (claim(5, 100, Some(50)), claim(4, 50, None));
    assert_eq!(of(&[Some(&a), Some(&kept)], 3), Standing::Likely(latest(&a)));
    assert_eq!(of(&[Some(&a), Some(&kept), Some(&kept)], 3), tick_before(50));
    assert_eq!(of(&[Some(&a)], 3), Standing::TooFew);
    assert_eq!(of(&[None, None], 3), Standing::Known(None));
}

#[test]
fn a_claim_of_ones_own_that_came_to_nothing_is_in_nobodys_way() {
    let (own, kept) = (claim(5, 100, Some(50)), claim(4, 50, None));
    assert_eq!(standing([Some(&own), Some(&kept)], 3, &[5]), tick_before(50));
}

#[test]
fn the_end_of_a_run_is_known_from_one_node() {
    let begun = claim(5, 100, None);
    let mut ended = begun.clone();
    ended.run = begun.run.ended(Duration::from_millis(7));
    assert_eq!(of(&[Some(&begun), Some(&ended), None], 3), Standing::Known(Some(latest(&ended))));
}

#[test]
fn of_two_runs_under_one_token_the_later_one_counts() {
    let later = claim(5, 200, Some(100));
    let earlier = claim(5, 100, None);
    let mut ended = earlier.clone();
    ended.run = earlier.run.ended(Duration::from_millis(7));
    for other in [&earlier, &ended] {
        for told in [[&later, &later, other], [other, &later, &later], [&later, other, other]] {
            assert_eq!(of(&told.map(Some), 3), Standing::Known(Some(latest(&later))));
        }
    }
}

#[derive(Clone, Default)]
struct Voter {
    promised: u64,
    claim: Option<TickClaim>,
    /// In probation: after so many messages.
    since: Option<usize>,
}

/// A replica between the rounds of its claim.
struct Replica {
    token: u64,
    told: Vec<Option<TickClaim>>,
    decided: bool,
    accepted: usize,
    claiming: Option<TickClaim>,
    never_started: Vec<u64>,
}

fn tick(run: &TickRun) -> u64 {
    u64::try_from(run.tick.as_millis()).unwrap()
}

struct Message {
    node: usize,
    sent: usize,
    what: What,
}

impl Message {
    fn is_answer(&self) -> bool {
        matches!(self.what, What::Promised { .. } | What::Accepted { .. })
    }
}

/// What is said to a node, or by one.
enum What {
    Prepare { from: usize, token: u64 },
    Promised { to: usize, token: u64, claim: Option<TickClaim> },
    Claim { from: usize, claim: TickClaim },
    Accepted { to: usize, token: u64 },
}

struct World {
    voters: Vec<Voter>,
    replicas: Vec<Replica>,
    messages: Vec<Message>,
    sent: usize,
    next_token: u64,
    starts: HashMap<u64, Vec<u64>>,
    random: u64,
}

impl World {
    fn new(voters: usize, replicas: usize, seed: u64) -> Self {
        let replica = || Replica {
            token: 0,
            told: Vec::new(),
            decided: true,
            accepted: 0,
            claiming: None,
            never_started: Vec::new(),
        };
        Self {
            voters: vec![Voter::default(); voters],
            replicas: (0..replicas).map(|_| replica()).collect(),
            messages: Vec::new(),
            sent: 0,
            next_token: 1,
            starts: HashMap::new(),
            random: seed,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.random >> 33) % limit as u64).unwrap()
    }

    /// A new attempt, under a lock that the replica has, or had: nobody sees to that here.
    fn begin(&mut self, from: usize) {
        let token = self.next_token;
        self.next_token += 1;
        let replica = &mut self.replicas[from];
        replica.never_started.extend(replica.claiming.take().map(|claim| claim.token));
        replica.token = token;
        replica.told.clear();
        replica.decided = false;
        replica.accepted = 0;
        for node in 0..self.voters.len() {
            self.send(node, What::Prepare { from, token });
        }
    }

    fn send(&mut self, node: usize, what: What) {
        self.sent += 1;
        self.messages.push(Message { node, sent: self.sent, what });
    }

    fn deliver(&mut self, message: Message) {
        let node = message.node;
        let voter = &mut self.voters[node];
        if voter.since.is_some() && !message.is_answer() {
            return;
        }
        match message.what {
            What::Prepare { from, token } if voter.promised <= token => {
                voter.promised = token;
                let claim = voter.claim.clone();
                self.send(node, What::Promised { to: from, token, claim });
            }
            What::Claim { from, claim } if voter.promised <= claim.token => {
                voter.promised = claim.token;
                let token = claim.token;
                voter.claim = Some(claim);
                self.send(node, What::Accepted { to: from, token });
            }
            What::Promised { to, token, claim } if self.replicas[to].token == token => {
                let replica = &mut self.replicas[to];
                if !replica.decided {
                    replica.told.push(claim);
                }
            }
            What::Accepted { to, token } if self.replicas[to].token == token => {
                let replica = &mut self.replicas[to];
                replica.accepted += 1;
                if replica.accepted == rules::quorum(self.voters.len())
                    && let Some(claim) = replica.claiming.take()
                {
                    self.starts.entry(tick(&claim.run)).or_default().push(token);
                }
            }
            _ => {}
        }
    }

    /// Decides on what it was told so far.
    fn decide(&mut self, from: usize) {
        let nodes = self.voters.len();
        let replica = &mut self.replicas[from];
        if replica.decided {
            return;
        }
        let told = replica.told.iter().map(Option::as_ref);
        let before = match standing(told, nodes, &replica.never_started) {
            Standing::TooFew => return,
            Standing::Known(latest) => latest.map(|latest| tick(&latest.run)),
            Standing::Likely(latest) => Some(tick(&latest.run)),
        };
        let claim = claim(replica.token, before.unwrap_or(0) + 1, before);
        replica.decided = true;
        replica.claiming = Some(claim.clone());
        for node in 0..nodes {
            self.send(node, What::Claim { from, claim: claim.clone() });
        }
    }

    /// Forgets all; in probation from then on, or learns and votes again.
    fn restart(&mut self, node: usize) {
        match self.voters[node].since {
            None => self.voters[node] = Voter { since: Some(self.sent), ..Voter::default() },
            Some(since) => self.activate(node, since),
        }
    }

    /// Learns from as many others as it takes. A probation lasts longer than any request may take
    /// to run: what was asked before it is done by now, everywhere, or refused as late.
    fn activate(&mut self, node: usize, since: usize) {
        let nodes = self.voters.len();
        let needed = nodes - rules::quorum(nodes) + 1;
        let votes = |other: &usize| self.voters[*other].since.is_none();
        let mut others: Vec<usize> = (0..nodes).filter(votes).collect();
        while others.len() > needed {
            let gone = self.below(others.len());
            others.remove(gone);
        }
        if others.len() < needed {
            return;
        }
        self.messages.retain(|message| message.is_answer() || message.sent > since);
        let others = || others.iter().map(|other| &self.voters[*other]);
        let promised = others().map(|other| other.promised).max().unwrap_or(0);
        let claim =
            others().filter_map(|other| other.claim.clone()).max_by_key(|claim| claim.token);
        self.voters[node] = Voter { promised, claim, since: None };
    }

    fn step(&mut self, restarts: bool) {
        let replica = self.below(self.replicas.len());
        match self.below(20) {
            0 => self.begin(replica),
            1..=3 => self.decide(replica),
            4 if restarts && self.below(5) == 0 => {
                let node = self.below(self.voters.len());
                self.restart(node);
            }
            5 if !self.messages.is_empty() => {
                let lost = self.below(self.messages.len());
                self.messages.swap_remove(lost);
            }
            _ if !self.messages.is_empty() => {
                let next = self.below(self.messages.len());
                let message = self.messages.swap_remove(next);
                self.deliver(message);
            }
            _ => {}
        }
    }
}

/// How many ticks were started.
fn run(nodes: usize, replicas: usize, seed: u64, restarts: bool) -> usize {
    let mut world = World::new(nodes, replicas, seed);
    for _ in 0..1_500 {
        world.step(restarts);
        let twice = world.starts.iter().find(|(_, tokens)| tokens.len() > 1);
        assert_eq!(twice, None, "a tick was started twice");
    }
    world.starts.len()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_tick_is_started_twice(nodes in 1_usize..=7, replicas in 1_usize..=4, seed: u64) {
        run(nodes, replicas, seed, false);
    }

    #[test]
    fn nor_where_nodes_forget_and_learn_again(
        nodes in 3_usize..=7,
        replicas in 1_usize..=4,
        seed: u64,
    ) {
        run(nodes, replicas, seed, true);
    }
}

#[test]
fn ticks_are_started_all_the_same() {
    let started: usize = (0..50).map(|seed| run(5, 3, seed, true)).sum();
    assert!(started > 100, "{started} ticks");
}
