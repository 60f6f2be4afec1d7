//! Whether a set becomes whole once nothing is disturbed any more: within two probations.

use super::{
    faults::FaultBudget,
    setups::{by_groups, first_start, moves, restarts},
    step::NamesStep,
    walk::NamesWalk,
    world::{CLIENTS, NamesSetup, NamesWorld},
};
use crate::quorum::tests::search::{SEEDS, Search};

/// Walks that look for states to start from.
const WALKS: u64 = 500;

/// Regular looks of all clients, once nothing is disturbed any more; true once the set is whole.
fn settles(mut world: NamesWorld, ticks: usize) -> bool {
    world.left = FaultBudget::default();
    let leads = world.leads[0];
    world.leads.fill(leads);
    // Somebody connects anew; the others learn of a move by what is stored.
    for node in world.names() {
        world.apply(NamesStep::Open { client: 0, node });
    }
    for _ in 0..ticks {
        for _ in 0..2 {
            for client in 0..CLIENTS {
                for node in world.names() {
                    let driver = &world.drivers[client];
                    if driver.conn[node].is_none() || driver.is_displaced(node) {
                        world.apply(NamesStep::Open { client, node });
                    }
                    world.apply(NamesStep::Observe { client, node });
                    world.apply(NamesStep::Reenrol { client, node });
                }
                for into in world.names() {
                    for of in world.names() {
                        world.apply(NamesStep::Store { client, into, of });
                    }
                    world.apply(NamesStep::Merge { client, node: into });
                }
                for node in world.names() {
                    world.apply(NamesStep::Observe { client, node });
                }
                for node in world.names() {
                    world.apply(NamesStep::Begin { client, node });
                    for of in world.names() {
                        world.apply(NamesStep::Fence { client, node: of });
                    }
                    world.apply(NamesStep::Activate { client });
                    world.apply(NamesStep::Observe { client, node });
                }
            }
        }
        if world.is_whole() {
            return true;
        }
        world.apply(NamesStep::Tick);
    }
    world.is_whole()
}

/// Returns the states that a search kept, and the trace to one that does not become whole within
/// `ticks`.
fn stuck(search: &Search<NamesWalk>, ticks: usize) -> (usize, Vec<&[NamesStep]>) {
    let stuck = search.kept.iter().filter(|kept| !settles(kept.model.clone(), ticks));
    (search.kept.len(), stuck.map(|kept| &kept.trace[..]).collect())
}

fn becomes_whole(setup: NamesSetup) {
    let setup = by_groups(setup);
    let mut search = Search::<NamesWalk>::new(NamesWorld::new(setup), SEEDS[0]);
    assert!(search.run(WALKS).is_none(), "a violation");
    let ticks = 2 * usize::from(setup.ttl) + 1;
    let (states, stuck) = stuck(&search, ticks);
    println!(
        "N = {}: {} of {states} states take more than {ticks} ticks",
        setup.names,
        stuck.len()
    );
    assert!(states > 100, "{states} states are too few");
    let shortest = stuck.iter().min_by_key(|trace| trace.len());
    assert!(stuck.is_empty(), "not whole after {ticks} ticks:\n{shortest:#?}");
}

#[test]
fn three_names_become_whole() {
    [moves(3), restarts(3), first_start(3)].into_iter().for_each(becomes_whole);
}

#[test]
fn five_names_become_whole() {
    [moves(5), restarts(5), first_start(5)].into_iter().for_each(becomes_whole);
}
