//! Where the rule ends: q names that change within one probation. What is found here shows that the
//! limit is where the documentation says, and that the searches reach it.

use super::{
    faults::FaultBudget,
    holds::WALKS,
    setups::{by_groups, moves, run, search},
    step::{
        NamesStep::{
            Activate, Begin, Cut, Fence, Merge, Move, Observe, Open, Restart, Store, Tick,
        },
        Violation,
    },
    world::NamesSetup,
};

const NO_FAULTS: FaultBudget = FaultBudget {
    moves: 0,
    blank_restarts: 0,
    restarts: 0,
    crashes: 0,
    cuts: 0,
    gains: 0,
    promotions: 0,
};

/// Three names, of which two may change within one probation.
fn two_of_three(faults: FaultBudget) -> NamesSetup {
    NamesSetup { at_once: 2, faults, ..by_groups(moves(3)) }
}

fn finds_disjoint_groups(faults: FaultBudget) {
    let found = search(two_of_three(faults), WALKS).map(|(violation, _)| violation);
    assert_eq!(found, Some(Violation::DisjointGroups));
}

#[test]
fn two_names_move() {
    finds_disjoint_groups(FaultBudget { moves: 2, ..NO_FAULTS });
}

#[test]
fn two_names_fail_over() {
    finds_disjoint_groups(FaultBudget { promotions: 2, ..NO_FAULTS });
}

#[test]
fn one_moves_one_restarts_blank() {
    finds_disjoint_groups(FaultBudget { moves: 1, blank_restarts: 1, cuts: 2, ..NO_FAULTS });
}

/// A server that keeps its data is enrolled anew by a restart, and so counts as well.
#[test]
fn one_moves_one_restarts() {
    finds_disjoint_groups(FaultBudget { moves: 1, restarts: 1, cuts: 2, ..NO_FAULTS });
}

/// A probation lasts while any client is connected to the server, also after the name has
/// moved on: here name 0 restarts, moves and settles, and name 1 restarts, all while client 0 knows
/// only the first server of name 0. The two restarted servers bootstrap.
#[test]
fn stale_probation_counts() {
    let setup = two_of_three(FaultBudget { moves: 1, blank_restarts: 2, cuts: 1, ..NO_FAULTS });
    let steps = [
        Restart { node: 0, machine: 0, keeps_data: false },
        Open { client: 0, node: 0 },
        Observe { client: 0, node: 0 },
        // Client 1 is led to another server under name 0, which settles.
        Move { client: None, node: 0, machine: 1 },
        Open { client: 1, node: 0 },
        Observe { client: 1, node: 0 },
        Store { client: 1, into: 1, of: 0 },
        Store { client: 1, into: 2, of: 0 },
        Merge { client: 1, node: 0 },
        Observe { client: 1, node: 0 },
        Observe { client: 1, node: 1 },
        Observe { client: 1, node: 2 },
        Tick,
        Tick,
        Tick,
        Begin { client: 1, node: 0 },
        Fence { client: 1, node: 1 },
        Fence { client: 1, node: 2 },
        Activate { client: 1 },
        // Client 0 still knows the first server of name 0, and can't reach name 2.
        Restart { node: 1, machine: 0, keeps_data: false },
        Cut { client: 0, node: 2 },
        Open { client: 0, node: 1 },
        Observe { client: 0, node: 1 },
        Store { client: 0, into: 1, of: 0 },
        Store { client: 0, into: 0, of: 1 },
        Observe { client: 0, node: 0 },
        Observe { client: 0, node: 1 },
        Tick,
        Tick,
        Tick,
        Begin { client: 0, node: 1 },
        Activate { client: 0 },
        Observe { client: 0, node: 1 },
        Begin { client: 0, node: 0 },
        Activate { client: 0 },
    ];

    assert_eq!(run(setup, &steps), Some(Violation::DisjointGroups));
}
