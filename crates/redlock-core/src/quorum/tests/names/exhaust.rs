//! Every state of a small set up to a number of ticks, instead of random walks.
//!
//! A client tells a server of all others at once here, as the product does, and reads all fences at
//! once; what it read may be old in either case. States that differ only in the order of names or
//! of clients count as one.

use std::collections::HashSet;

use super::{
    faults::FaultBudget,
    fingerprint::fingerprint,
    rule::RulePart,
    setups::{by_groups, moves, without},
    step::{NamesStep, Violation},
    world::{CLIENTS, NamesSetup, NamesWorld, Tick},
};
use crate::quorum::tests::search::shorten;

/// One or more steps that are taken together.
type Steps = Vec<NamesStep>;

/// What a search over all states came to.
#[derive(Debug)]
pub(crate) struct Exhausted {
    /// States that were visited, apart from those that are alike.
    pub(crate) states: usize,
    /// Steps that were taken from one of them to another.
    pub(crate) transitions: u64,
    pub(crate) found: Option<(Violation, Vec<NamesStep>)>,
}

/// Visits every state that can be reached within `ticks`, until one is a violation.
pub(crate) fn exhaust(setup: NamesSetup, ticks: Tick) -> Exhausted {
    let all = choices(&setup);
    let mut seen = HashSet::new();
    let mut transitions = 0;
    let world = NamesWorld::new(setup);
    seen.insert(fingerprint(&world));
    // Depth first: the worlds on the way to the present one, and the next choice of each.
    let mut path = vec![(world, 0)];
    while let Some((world, next)) = path.last_mut() {
        // Steps that do nothing leave the copy as it is.
        let mut after = world.clone();
        let is_late = |steps: &Steps| steps[0] == NamesStep::Tick && world.now == ticks;
        let mut takes = |steps: &Steps| {
            !is_late(steps)
                && steps.iter().fold(false, |changed, &step| after.apply(step) | changed)
        };
        let Some(skipped) = all[*next..].iter().position(&mut takes) else {
            path.pop();
            continue;
        };
        *next += skipped + 1;
        transitions += 1;
        if let Some(violation) = after.violation {
            let steps = path.iter().flat_map(|(_, next)| all[next - 1].iter().copied());
            let found = Some((violation, steps.collect()));
            return Exhausted { states: seen.len(), transitions, found };
        }
        if seen.insert(fingerprint(&after)) {
            path.push((after, 0));
        }
    }
    Exhausted { states: seen.len(), transitions, found: None }
}

/// All that may be done next, in any state.
fn choices(setup: &NamesSetup) -> Vec<Steps> {
    let (names, clients) = (0..setup.names, 0..CLIENTS);
    let mut all: Vec<Steps> = Vec::new();
    for client in clients.clone() {
        for node in names.clone() {
            all.push(vec![NamesStep::Observe { client, node }]);
            let stores = names.clone().map(|of| NamesStep::Store { client, into: node, of });
            all.push(stores.chain([NamesStep::Merge { client, node }]).collect());
            all.push(vec![NamesStep::Begin { client, node }]);
            all.push(vec![NamesStep::Open { client, node }]);
            all.push(vec![NamesStep::Reenrol { client, node }]);
            all.push(vec![NamesStep::Cut { client, node }]);
        }
        let fences = names.clone().map(|node| NamesStep::Fence { client, node });
        all.push(fences.chain([NamesStep::Activate { client }]).collect());
        all.push(vec![NamesStep::Crash { client }]);
    }
    for node in names {
        for machine in 0..setup.machines {
            all.push(vec![NamesStep::Move { client: None, node, machine }]);
            let one = |client| vec![NamesStep::Move { client: Some(client), node, machine }];
            all.extend(clients.clone().map(one));
            let restart = |keeps_data| vec![NamesStep::Restart { node, machine, keeps_data }];
            all.extend([true, false].map(restart));
        }
    }
    all.push(vec![NamesStep::Tick]);
    all
}

/// A set of three, one name of which moves once, with locks and probations of `ttl` ticks.
fn one_move(ttl: Tick) -> NamesSetup {
    let faults = FaultBudget { moves: 1, ..FaultBudget::default() };
    NamesSetup { ttl, faults, ..by_groups(moves(3)) }
}

/// Returns the same set, where the name moves for both clients at once.
fn small() -> NamesSetup {
    NamesSetup { split_lookups: false, ..one_move(1) }
}

#[test]
fn small_set_has_no_violation() {
    let Exhausted { states, transitions, found } = exhaust(small(), 2);
    assert_eq!(found, None);
    assert_eq!((states, transitions), (17_413, 73_239), "the numbers in verify/model.md");
}

#[test]
fn small_set_needs_each_part() {
    for part in [RulePart::Views, RulePart::EnoughWitnesses, RulePart::Wait] {
        let found = exhaust(without(part, small()), 2).found.map(|(violation, _)| violation);
        assert_eq!(found, Some(Violation::DisjointGroups), "{part:?}");
    }
}

/// `EXHAUST_TICKS=6 cargo test --release --lib exhaust -- --ignored --nocapture` searches deeper.
#[test]
#[ignore = "takes minutes: see verify/model.md"]
fn larger_set_has_no_violation() {
    let ticks = std::env::var("EXHAUST_TICKS");
    let ticks = ticks.map_or(4, |ticks| ticks.parse().expect("EXHAUST_TICKS is a number"));
    let Exhausted { states, transitions, found } = exhaust(one_move(2), ticks);
    println!("{ticks} ticks: {states} states, {transitions} steps");
    assert_eq!(found, None);
}

#[test]
#[ignore = "takes minutes: see verify/model.md"]
fn larger_set_needs_each_part() {
    for part in [RulePart::Views, RulePart::EnoughWitnesses, RulePart::Wait, RulePart::Starters] {
        let setup = without(part, one_move(2));
        let Exhausted { states, found, .. } = exhaust(setup, 3);
        let (violation, trace) = found.expect("the part prevents something");
        let steps = shorten(&NamesWorld::new(setup), &trace).len();
        println!("without {part:?}: {violation:?} after {states} states, {steps} steps");
        assert_eq!(violation, Violation::DisjointGroups);
    }
}
