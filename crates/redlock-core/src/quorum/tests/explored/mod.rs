//! Small worlds of which every reachable state is visited, by a model checker.
//!
//! The leases, votes, claims and probations are the product's; the nodes are in memory. A world has
//! few nodes, clients, moments and faults, and in exchange no order of their steps is left out.
//! Messages that are never delivered are lost, so the model needs no step for that.
//!
//! | what | where |
//! |---|---|
//! | leases over three nodes: exclusion, tokens, renewal, hand-off, a crash | `lock`, `lock_steps`, `lock_worlds` |
//! | ticks of a job, and the ends of their runs; also random walks over more nodes | `claims` |
//! | probations of servers that forgot | `enrolment`, `enrolment_steps`, `enrolment_worlds` |
//!
//! Each world also runs with a part of the rules left out, and the checker has to find what breaks.

mod claims;
mod enrolment;
mod enrolment_steps;
mod enrolment_worlds;
mod lock;
mod lock_steps;
mod lock_worlds;

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use super::search::Random;

/// Visits all states. Panics if an `always` property is violated, or a `sometimes` property is not
/// reached. Prints what was visited.
fn explore<M>(name: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + Hash + PartialEq + Send + Sync,
    M::Action: std::fmt::Debug + Clone + PartialEq + Send + Sync,
{
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    assert!(checker.is_done(), "{name}: not every state was visited");
    checker.assert_properties();
}

/// Visits states until the `always` property called `property` is violated, and prints the length
/// of the trace. Panics if no state violates it.
fn violates<M>(name: &str, model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + Hash + PartialEq + Send + Sync,
    M::Action: std::fmt::Debug + Clone + PartialEq + Send + Sync,
{
    let until = HasDiscoveries::AnyOf([property].into());
    let checker = model.checker().threads(2).finish_when(until).spawn_bfs().join();
    let states = checker.unique_state_count();
    let trace = checker.discovery(property);
    let trace = trace.unwrap_or_else(|| panic!("{name}: {property}: nothing in {states} states"));
    println!("{name}: found after {states} states, in {} steps", trace.into_actions().len());
}

/// Takes random steps, each with a probability in proportion to its weight. Returns the last state,
/// or the steps to the violation of an `always` property.
fn walk<M>(
    model: &M,
    weight: impl Fn(&M::Action) -> usize,
    steps: usize,
    seed: u64,
) -> Result<M::State, String>
where
    M: Model,
    M::State: Clone + std::fmt::Debug,
    M::Action: Clone + std::fmt::Debug,
{
    let properties = model.properties();
    let mut random = Random(seed);
    let mut state = model.init_states().remove(0);
    let (mut possible, mut trace) = (Vec::new(), Vec::new());
    for _ in 0..steps {
        possible.clear();
        model.actions(&state, &mut possible);
        let weights: Vec<_> = possible.iter().map(&weight).collect();
        if weights.is_empty() {
            break;
        }
        let step = possible.swap_remove(random.weighted(&weights));
        trace.push(step.clone());
        let Some(next) = model.next_state(&state, step) else { continue };
        state = next;
        for property in &properties {
            let is_kept =
                property.expectation != Expectation::Always || (property.condition)(model, &state);
            if !is_kept {
                return Err(format!("{} is violated: {trace:#?}", property.name));
            }
        }
    }
    Ok(state)
}

/// Returns a key by which to sort things whose order does not belong to a state.
fn sort_key(of: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(of)
}
