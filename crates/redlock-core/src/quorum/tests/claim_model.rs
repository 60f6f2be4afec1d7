//! One start per tick, with lost messages, and nodes that forget and learn again.

use std::{collections::HashMap, time::Duration};

use proptest::prelude::*;

use super::{
    claims::{claim, run_of},
    safety::config,
};
use crate::{
    protocol::{TickClaim, TickRun, formulas},
    quorum::claims::{ClaimStatus, status},
};

#[derive(Clone, Default)]
struct Voter {
    promised: u64,
    claim: Option<TickClaim>,
    /// In probation: after so many messages.
    since: Option<usize>,
}

/// A replica between the rounds of its claim.
struct Claimant {
    token: u64,
    told: Vec<Option<TickClaim>>,
    decided: bool,
    accepted: usize,
    claiming: Option<TickClaim>,
    /// What replaces the claim under its token: the end of its run, or what was before it.
    replacing: Option<TickClaim>,
    never_started: Vec<u64>,
}

fn tick(run: &TickRun) -> u64 {
    u64::try_from(run.tick.as_millis()).unwrap()
}

struct Message {
    node: usize,
    sent: usize,
    kind: MessageKind,
}

impl Message {
    fn is_answer(&self) -> bool {
        matches!(self.kind, MessageKind::Promised { .. } | MessageKind::Accepted { .. })
    }
}

/// A request to a node, or its answer.
enum MessageKind {
    Prepare { from: usize, token: u64 },
    Promised { to: usize, token: u64, claim: Option<TickClaim> },
    Claim { from: usize, claim: TickClaim },
    Accepted { to: usize, token: u64, replaced: bool },
}

struct ClaimWorld {
    voters: Vec<Voter>,
    replicas: Vec<Claimant>,
    messages: Vec<Message>,
    sent: usize,
    next_token: u64,
    starts: HashMap<u64, Vec<u64>>,
    /// What a majority stored in place of a claim, by its token.
    replaced: HashMap<u64, TickRun>,
    /// Whether a replaced claim has a number; without one only its content differs.
    numbers: bool,
    /// Whether a replica read something else than what a majority stored last.
    is_wrong: bool,
    random: u64,
}

impl ClaimWorld {
    fn new(voters: usize, replicas: usize, seed: u64, numbers: bool) -> Self {
        let replica = || Claimant {
            token: 0,
            told: Vec::new(),
            decided: true,
            accepted: 0,
            claiming: None,
            replacing: None,
            never_started: Vec::new(),
        };
        Self {
            voters: vec![Voter::default(); voters],
            replicas: (0..replicas).map(|_| replica()).collect(),
            messages: Vec::new(),
            sent: 0,
            next_token: 1,
            starts: HashMap::new(),
            replaced: HashMap::new(),
            numbers,
            is_wrong: false,
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

    /// Begins an attempt under a lock that the replica has, or had: the model does not check that.
    fn begin(&mut self, from: usize) {
        let token = self.next_token;
        self.next_token += 1;
        let replica = &mut self.replicas[from];
        replica.never_started.extend(replica.claiming.take().map(|claim| claim.token));
        replica.token = token;
        replica.told.clear();
        replica.decided = false;
        replica.accepted = 0;
        replica.replacing = None;
        for node in 0..self.voters.len() {
            self.send(node, MessageKind::Prepare { from, token });
        }
    }

    fn send(&mut self, node: usize, kind: MessageKind) {
        self.sent += 1;
        self.messages.push(Message { node, sent: self.sent, kind });
    }

    fn deliver(&mut self, message: Message) {
        let node = message.node;
        let voter = &mut self.voters[node];
        if voter.since.is_some() && !message.is_answer() {
            return;
        }
        match message.kind {
            MessageKind::Prepare { from, token } if voter.promised <= token => {
                voter.promised = token;
                let claim = voter.claim.clone();
                self.send(node, MessageKind::Promised { to: from, token, claim });
            }
            MessageKind::Claim { from, claim }
                if voter.promised <= claim.token
                    && !voter.claim.as_ref().is_some_and(|kept| kept.supersedes(&claim)) =>
            {
                voter.promised = claim.token;
                let token = claim.token;
                let replaced = self.replicas[from].replacing.as_ref() == Some(&claim);
                voter.claim = Some(claim);
                self.send(node, MessageKind::Accepted { to: from, token, replaced });
            }
            MessageKind::Promised { to, token, claim } if self.replicas[to].token == token => {
                let replica = &mut self.replicas[to];
                if !replica.decided {
                    replica.told.push(claim);
                }
            }
            MessageKind::Accepted { to, token, replaced }
                if self.replicas[to].token == token
                    && self.replicas[to].replacing.is_some() == replaced =>
            {
                let replica = &mut self.replicas[to];
                replica.accepted += 1;
                if replica.accepted == formulas::quorum(self.voters.len()) {
                    self.accepted(to);
                }
            }
            _ => {}
        }
    }

    /// A majority took a replica's claim, or what replaces it.
    fn accepted(&mut self, from: usize) {
        if let Some(claim) = self.replicas[from].claiming.take() {
            let starts = self.below(3) > 0;
            let run = if starts {
                self.starts.entry(tick(&claim.run)).or_default().push(claim.token);
                claim.run.ended(Duration::from_millis(2))
            } else {
                claim.before.as_ref().map_or(run_of(0), |before| before.run)
            };
            let number = u32::from(self.numbers);
            let claim = TickClaim { run, ..claim }.numbered(number);
            let replica = &mut self.replicas[from];
            replica.accepted = 0;
            replica.replacing = Some(claim.clone());
            for node in 0..self.voters.len() {
                self.send(node, MessageKind::Claim { from, claim: claim.clone() });
            }
        } else if let Some(claim) = &self.replicas[from].replacing {
            self.replaced.insert(claim.token, claim.run);
        }
    }

    /// Decides on the answers so far.
    fn decide(&mut self, from: usize) {
        let nodes = self.voters.len();
        let replica = &mut self.replicas[from];
        if replica.decided {
            return;
        }
        let told = replica.told.iter().map(Option::as_ref);
        let latest = match status(told, nodes, &replica.never_started) {
            ClaimStatus::TooFew => return,
            ClaimStatus::Known(latest) => latest,
            ClaimStatus::Likely(latest) => Some(latest),
        };
        let told = replica.told.iter().flatten();
        if let Some(token) = told.map(|claim| claim.token).max()
            && let Some(replaced) = self.replaced.get(&token)
            && latest.as_ref().map(|latest| latest.run) != Some(*replaced)
        {
            self.is_wrong = true;
        }
        let before = latest.map(|latest| tick(&latest.run)).filter(|tick| *tick > 0);
        let claim = claim(replica.token, before.unwrap_or(0) + 1, before);
        replica.decided = true;
        replica.claiming = Some(claim.clone());
        for node in 0..nodes {
            self.send(node, MessageKind::Claim { from, claim: claim.clone() });
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
    /// to run: every earlier request has run by now, or is refused as late.
    fn activate(&mut self, node: usize, since: usize) {
        let nodes = self.voters.len();
        let needed = nodes - formulas::quorum(nodes) + 1;
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
        let claim = others()
            .filter_map(|other| other.claim.clone())
            .max_by_key(|claim| (claim.token, claim.number));
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

fn walk(nodes: usize, replicas: usize, seed: u64, restarts: bool, numbers: bool) -> ClaimWorld {
    let mut world = ClaimWorld::new(nodes, replicas, seed, numbers);
    for _ in 0..1_500 {
        world.step(restarts);
        let twice = world.starts.iter().find(|(_, tokens)| tokens.len() > 1);
        assert_eq!(twice, None, "a tick was started twice");
    }
    world
}

/// Returns the number of started ticks.
fn run(nodes: usize, replicas: usize, seed: u64, restarts: bool) -> usize {
    let world = walk(nodes, replicas, seed, restarts, true);
    assert!(!world.is_wrong, "an end was lost, or a tick that was taken back counts as run");
    world.starts.len()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_tick_is_started_twice(nodes in 1_usize..=7, replicas in 1_usize..=4, seed: u64) {
        run(nodes, replicas, seed, false);
    }

    #[test]
    fn restarts_start_no_tick_twice(
        nodes in 3_usize..=7,
        replicas in 1_usize..=4,
        seed: u64,
    ) {
        run(nodes, replicas, seed, true);
    }
}

#[test]
fn ticks_are_started() {
    let started: usize = (0..100).map(|seed| run(5, 3, seed, true)).sum();
    assert!(started > 100, "{started} ticks");
}

#[test]
fn without_numbers_returned_ticks_count_as_run() {
    let found = (0..200).filter(|seed| walk(3, 3, *seed, false, false).is_wrong).count();
    assert!(found > 0);
}
