//! The simpler rule that R14 does not have: a server replaces an owner by compare-and-set, and keeps a
//! list of those that it replaced. A server that forgot has no list, so a client that knows only the
//! former owner of a name sets it back.

use super::{
    cases::{by_groups, moves, run},
    faults::Faults,
    rule::Part,
    step::{
        Step,
        Step::{Activate, Attempt, Begin, Fence, Look, Move, Open, Restart, Store, Tick, Vote},
        Violation,
    },
    world::{Setup, World},
};

/// Client 0 sees the first server of `node` through its probation.
fn probation(node: usize) -> Vec<Step> {
    let [one, two] = [(node + 1) % 3, (node + 2) % 3];
    let mut steps = vec![
        Open { client: 0, node },
        Look { client: 0, node },
        Store { client: 0, into: one, of: node },
        Store { client: 0, into: two, of: node },
        Store { client: 0, into: node, of: one },
        Look { client: 0, node },
        Store { client: 0, into: node, of: two },
    ];
    steps.extend([one, two, node].map(|node| Look { client: 0, node }));
    steps.extend([Tick, Tick, Tick, Begin { client: 0, node }]);
    steps.extend([one, two].map(|node| Fence { client: 0, node }));
    steps.extend([Activate { client: 0 }, Look { client: 0, node }]);
    steps
}

fn moves_then_forgets() -> Vec<Step> {
    let moved = [Move { client: None, node: 0, machine: 1 }];
    let forgot = [Restart { node: 2, machine: 0, keeps_data: false }];
    // Client 1 is still connected to the former server of name 0, and does not look at server 1.
    let set_back = [
        Open { client: 1, node: 2 },
        Look { client: 1, node: 2 },
        Store { client: 1, into: 2, of: 0 },
        Store { client: 1, into: 0, of: 2 },
    ];
    [&moved[..], &probation(0), &forgot, &probation(2), &set_back].concat()
}

fn setup(without: Option<Part>) -> Setup {
    let faults = Faults { moves: 1, blank_restarts: 1, ..Faults::default() };
    Setup { without, faults, ..moves(3) }
}

#[test]
fn stale_client_sets_owner_back() {
    let setup = by_groups(setup(Some(Part::GreaterOwner)));
    let found = run(setup, &moves_then_forgets());
    assert_eq!(found, Some(Violation::DisjointGroups));
}

#[test]
fn both_owners_grant_lock() {
    let locks = [
        Attempt { client: 0 },
        Vote { client: 0, node: 0 },
        Vote { client: 0, node: 1 },
        Attempt { client: 1 },
        Vote { client: 1, node: 0 },
        Vote { client: 1, node: 2 },
    ];
    let mut world = World::new(setup(Some(Part::GreaterOwner)));
    let steps = [&moves_then_forgets()[..], &locks].concat();
    assert!(steps.into_iter().all(|step| world.apply(step)));
    assert_eq!(world.holders(), 2);
}

/// With the rule the server that forgot was told of the greater owner, and keeps it.
#[test]
fn greater_owner_stays() {
    let mut world = World::new(by_groups(setup(None)));
    for step in moves_then_forgets() {
        let sets_back = step == Store { client: 1, into: 2, of: 0 };
        assert_eq!(world.apply(step), !sets_back, "{step:?}");
    }
    assert_eq!(world.violation, None);
}
