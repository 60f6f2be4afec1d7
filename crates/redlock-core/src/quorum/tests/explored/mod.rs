//! Small worlds of which every reachable state is visited, by a model checker.
//!
//! The leases, votes, claims and probations are the product's; the nodes are in memory. A world has
//! few nodes, clients, moments and faults, and in exchange no order of their steps is left out.
//! Messages that are never delivered are lost, so the model needs no step for that.
//!
//! | what | where |
//! |---|---|
//! | leases over three nodes: exclusion, tokens, renewal, hand-off, a crash | `lock`, `lock_steps`, `lock_worlds` |
//! | ticks of a job, and the ends of their runs | `claims` |
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

use stateright::{Checker, HasDiscoveries, Model};

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

/// Returns a key by which to sort things whose order does not belong to a state.
fn sort_key(of: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(of)
}
