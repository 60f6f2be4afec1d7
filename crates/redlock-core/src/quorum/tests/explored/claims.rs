//! Ticks of a job (R12): which replica starts a tick, and the ends of runs. Every state over three
//! nodes, and random walks over one to seven.
//!
//! A node's answer reaches the replica at once: the replica decides at any later moment, and on any
//! quorum of the answers, which covers answers that are late or lost.

use std::time::Duration;

use proptest::prelude::*;
use stateright::{Model, Property};

use super::{explore, sort_key, violates, walk};
use crate::{
    protocol::{TickClaim, TickRun, formulas},
    quorum::{
        claims::{ClaimStatus, status},
        tests::{
            claims::{claim, run_of},
            safety::config,
        },
    },
};

/// A world of replicas that claim ticks.
#[derive(Clone, Debug)]
struct ClaimWorld {
    nodes: usize,
    /// Attempts of each replica.
    attempts: Vec<u8>,
    /// Number of nodes that forget.
    crashes: u8,
    /// A node accepts nothing below what it promised.
    keeps_promises: bool,
    /// A claim that replaces another of its token has a greater number.
    has_numbers: bool,
    /// A node that forgot learns from others before it votes.
    learns: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClaimState {
    voters: Vec<Voter>,
    replicas: Vec<Replica>,
    /// In a fixed order, because the order of sending does not belong to the state.
    messages: Vec<Message>,
    crashes: u8,
    next_token: u64,
    /// The ticks that were started, with the token of each start.
    started: Vec<(u64, u64)>,
    /// What a quorum stored in place of a claim, by its token.
    replaced: Vec<(u64, TickRun)>,
    /// Whether a replica read something else than what a quorum stored last.
    is_wrong: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Voter {
    promised: u64,
    claim: Option<TickClaim>,
    in_probation: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Replica {
    attempts: u8,
    token: u64,
    /// What each node that promised stored then.
    promises: Vec<(usize, Option<TickClaim>)>,
    is_decided: bool,
    /// The nodes that accepted what was sent last.
    accepted: Vec<usize>,
    claiming: Option<TickClaim>,
    replacing: Option<TickClaim>,
    never_started: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Message {
    node: usize,
    replica: usize,
    /// The nodes in probation that forgot after it was sent; one bit for each.
    outdated: u8,
    kind: MessageKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum MessageKind {
    Prepare { token: u64 },
    Claim { claim: Box<TickClaim> },
}

#[derive(Clone, Debug, PartialEq)]
enum ClaimStep {
    /// A replica that has the lock begins, under the next token.
    Begin { replica: usize },
    /// A request arrives.
    Deliver { index: usize },
    /// A replica decides on the promises so far, but for one.
    Decide { replica: usize, without: Option<usize> },
    /// The claim was accepted: the run starts and ends, or does not start.
    Conclude { replica: usize, starts: bool },
    /// A node loses its data.
    Crash { node: usize },
    /// Its probation ends, after it learnt from these others; one bit for each.
    Activate { node: usize, from: u8 },
}

fn tick(run: &TickRun) -> u64 {
    u64::try_from(run.tick.as_millis()).unwrap()
}

impl ClaimState {
    fn send(&mut self, replica: usize, kind: &MessageKind) {
        for node in 0..self.voters.len() {
            self.messages.push(Message { node, replica, outdated: 0, kind: kind.clone() });
        }
    }
}

impl ClaimWorld {
    fn deliver(&self, state: &mut ClaimState, Message { node, replica, kind, .. }: Message) {
        let voter = &mut state.voters[node];
        let of = &mut state.replicas[replica];
        match kind {
            MessageKind::Prepare { token } => {
                if voter.in_probation || voter.promised > token {
                    return;
                }
                voter.promised = token;
                if of.token == token && !of.is_decided {
                    of.promises.push((node, voter.claim.clone()));
                    of.promises.sort_by_key(|(node, _)| *node);
                }
            }
            MessageKind::Claim { claim } => {
                let is_refused = self.keeps_promises && voter.promised > claim.token;
                let is_superseded =
                    voter.claim.as_ref().is_some_and(|stored| stored.supersedes(&claim));
                if voter.in_probation || is_refused || is_superseded {
                    return;
                }
                voter.promised = voter.promised.max(claim.token);
                let is_awaited = of.token == claim.token
                    && (of.replacing.is_none() || of.replacing.as_ref() == Some(&claim));
                if is_awaited {
                    of.accepted.push(node);
                    of.accepted.sort_unstable();
                    if of.accepted.len() == formulas::quorum(self.nodes) && of.replacing.is_some() {
                        state.replaced.push((claim.token, claim.run));
                        state.replaced.sort_by_key(|(token, _)| *token);
                    }
                }
                voter.claim = Some(*claim);
            }
        }
    }

    fn decide(state: &mut ClaimState, replica: usize, without: Option<usize>) {
        let of = &mut state.replicas[replica];
        let counted = || of.promises.iter().filter(|(node, _)| Some(*node) != without);
        let promises = || counted().map(|(_, claim)| claim.as_ref());
        let latest = match status(promises(), state.voters.len(), &of.never_started) {
            ClaimStatus::TooFew => return,
            ClaimStatus::Known(latest) => latest,
            ClaimStatus::Likely(latest) => Some(latest),
        };
        if let Some(token) = promises().flatten().map(|claim| claim.token).max()
            && let Some((_, stored)) = state.replaced.iter().find(|(of, _)| *of == token)
            && latest.as_ref().map(|latest| latest.run) != Some(*stored)
        {
            state.is_wrong = true;
        }
        let before = latest.map(|latest| tick(&latest.run)).filter(|tick| *tick > 0);
        let claim = claim(of.token, before.unwrap_or(0) + 1, before);
        of.is_decided = true;
        of.promises.clear();
        of.claiming = Some(claim.clone());
        state.send(replica, &MessageKind::Claim { claim: claim.into() });
    }

    fn conclude(&self, state: &mut ClaimState, replica: usize, starts: bool) {
        let of = &mut state.replicas[replica];
        let Some(claim) = of.claiming.take() else { return };
        let run = if starts {
            state.started.push((tick(&claim.run), claim.token));
            state.started.sort_unstable();
            claim.run.ended(Duration::from_millis(2))
        } else {
            claim.before.as_ref().map_or(run_of(0), |before| before.run)
        };
        let claim = TickClaim { run, ..claim }.numbered(u32::from(self.has_numbers));
        of.accepted.clear();
        of.replacing = Some(claim.clone());
        state.send(replica, &MessageKind::Claim { claim: claim.into() });
    }

    fn activate(&self, state: &mut ClaimState, node: usize, from: u8) {
        let others = || (0..self.nodes).filter(|other| from & (1 << other) != 0);
        let promised = others().map(|other| state.voters[other].promised).max().unwrap_or(0);
        let stored = others().filter_map(|other| state.voters[other].claim.clone());
        let claim = stored.max_by_key(|claim| (claim.token, claim.number));
        state.voters[node] = if self.learns {
            Voter { promised, claim, in_probation: false }
        } else {
            Voter::default()
        };
        // A probation is longer than the deadline of any request that was sent before.
        state.messages.retain(|message| message.outdated & (1 << node) == 0);
    }

    /// Returns the sets of N−q+1 voting nodes; one bit for each.
    fn sources(&self, state: &ClaimState) -> impl Iterator<Item = u8> {
        let is_voting = |(node, voter): (usize, &Voter)| u8::from(!voter.in_probation) << node;
        let voting: u8 = state.voters.iter().enumerate().map(is_voting).sum();
        let needed = self.nodes - formulas::quorum(self.nodes) + 1;
        let sets = 0..1 << self.nodes;
        sets.filter(move |set: &u8| set & !voting == 0 && set.count_ones() as usize == needed)
    }
}

impl Model for ClaimWorld {
    type State = ClaimState;
    type Action = ClaimStep;

    fn init_states(&self) -> Vec<ClaimState> {
        vec![ClaimState {
            voters: vec![Voter::default(); self.nodes],
            replicas: vec![Replica { is_decided: true, ..Replica::default() }; self.attempts.len()],
            messages: Vec::new(),
            crashes: self.crashes,
            next_token: 1,
            started: Vec::new(),
            replaced: Vec::new(),
            is_wrong: false,
        }]
    }

    fn actions(&self, state: &ClaimState, steps: &mut Vec<ClaimStep>) {
        for (replica, of) in state.replicas.iter().enumerate() {
            if of.attempts < self.attempts[replica] {
                steps.push(ClaimStep::Begin { replica });
            }
            if !of.is_decided && of.promises.len() >= formulas::quorum(self.nodes) {
                steps.push(ClaimStep::Decide { replica, without: None });
                if of.promises.len() == self.nodes {
                    let without = (0..self.nodes).map(Some);
                    steps.extend(without.map(|without| ClaimStep::Decide { replica, without }));
                }
            }
            if of.claiming.is_some() && of.accepted.len() >= formulas::quorum(self.nodes) {
                steps.push(ClaimStep::Conclude { replica, starts: true });
                steps.push(ClaimStep::Conclude { replica, starts: false });
            }
        }
        steps.extend((0..state.messages.len()).map(|index| ClaimStep::Deliver { index }));
        for (node, voter) in state.voters.iter().enumerate() {
            if voter.in_probation {
                let sources = self.sources(state);
                steps.extend(sources.map(|from| ClaimStep::Activate { node, from }));
            } else if state.crashes > 0 {
                steps.push(ClaimStep::Crash { node });
            }
        }
    }

    fn next_state(&self, state: &ClaimState, step: ClaimStep) -> Option<ClaimState> {
        let mut next = state.clone();
        match step {
            ClaimStep::Begin { replica } => {
                let token = next.next_token;
                next.next_token += 1;
                let of = &mut next.replicas[replica];
                let mut never_started = std::mem::take(&mut of.never_started);
                never_started.extend(of.claiming.take().map(|claim| claim.token));
                let attempts = of.attempts + 1;
                *of = Replica { attempts, token, never_started, ..Replica::default() };
                next.send(replica, &MessageKind::Prepare { token });
            }
            ClaimStep::Deliver { index } => {
                let message = next.messages.remove(index);
                self.deliver(&mut next, message);
            }
            ClaimStep::Decide { replica, without } => Self::decide(&mut next, replica, without),
            ClaimStep::Conclude { replica, starts } => self.conclude(&mut next, replica, starts),
            ClaimStep::Crash { node } => {
                next.crashes -= 1;
                next.voters[node] = Voter { in_probation: true, ..Voter::default() };
                next.messages.iter_mut().for_each(|message| message.outdated |= 1 << node);
            }
            ClaimStep::Activate { node, from } => self.activate(&mut next, node, from),
        }
        next.messages.sort_by_cached_key(sort_key);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("one start of a tick", |_, state: &ClaimState| {
                state.started.windows(2).all(|pair| pair[0].0 != pair[1].0)
            }),
            Property::always("no end is lost", |_, state: &ClaimState| !state.is_wrong),
            Property::sometimes("an end is stored", |_, state: &ClaimState| {
                !state.replaced.is_empty()
            }),
        ];
        if self.attempts.iter().sum::<u8>() > 1 {
            let is_reached = |_: &Self, state: &ClaimState| state.started.len() == 2;
            properties.push(Property::sometimes("two ticks are started", is_reached));
        }
        properties
    }
}

fn world(attempts: &[u8]) -> ClaimWorld {
    ClaimWorld {
        nodes: 3,
        attempts: attempts.to_vec(),
        crashes: 0,
        keeps_promises: true,
        has_numbers: true,
        learns: true,
    }
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn two_replicas_claim() {
    explore("two replicas claim", world(&[1, 1]));
}

#[test]
fn without_promises_a_tick_starts_twice() {
    let world = ClaimWorld { keeps_promises: false, ..world(&[1, 1]) };
    violates("no promises", world, "one start of a tick");
}

#[test]
fn without_numbers_an_end_is_lost() {
    let world = ClaimWorld { has_numbers: false, ..world(&[1, 1]) };
    violates("no numbers", world, "no end is lost");
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn without_learning_a_tick_starts_twice() {
    let world = ClaimWorld { learns: false, crashes: 1, ..world(&[1, 1]) };
    violates("no learning", world, "one start of a tick");
}

/// Takes a random walk. Returns the number of started ticks.
fn walk_claims(world: &ClaimWorld, seed: u64) -> Result<usize, String> {
    let weight = |step: &ClaimStep| match step {
        ClaimStep::Crash { .. } => 1,
        ClaimStep::Begin { .. } | ClaimStep::Activate { .. } => 5,
        ClaimStep::Decide { .. } => 20,
        ClaimStep::Deliver { .. } => 50,
        ClaimStep::Conclude { .. } => 100,
    };
    walk(world, weight, 400, seed).map(|state| state.started.len())
}

fn walked(nodes: usize, replicas: usize, crashes: u8) -> ClaimWorld {
    ClaimWorld { nodes, crashes, ..world(&vec![8; replicas]) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_tick_is_started_twice(nodes in 1_usize..=7, replicas in 1_usize..=4, seed: u64) {
        let found = walk_claims(&walked(nodes, replicas, 0), seed);
        prop_assert!(found.is_ok(), "{}", found.unwrap_err());
    }

    #[test]
    fn restarts_start_no_tick_twice(nodes in 3_usize..=7, replicas in 1_usize..=4, seed: u64) {
        let found = walk_claims(&walked(nodes, replicas, 8), seed);
        prop_assert!(found.is_ok(), "{}", found.unwrap_err());
    }
}

#[test]
fn walks_start_ticks() {
    let started: usize =
        (0..50).map(|seed| walk_claims(&walked(5, 3, 8), seed).expect("no violation")).sum();
    assert!(started > 100, "{started} ticks are started in 50 walks");
}
