//! The worlds of leases that are explored, and what is found where a rule is left out.

use super::{
    explore,
    lock::{Budget, LockRule, LockWorld},
    violates,
};

const ONCE: Budget = Budget {
    attempts: 1,
    breaks: 0,
    duplicates: 0,
    crashes: 0,
    extends: 0,
    hand_offs: 0,
    lingers: 0,
    downgrades: 0,
};
const TWICE: Budget = Budget { attempts: 2, ..ONCE };

const PLAIN: LockWorld = LockWorld {
    clients: 2,
    sharers: 0,
    nodes: 3,
    ticks: 0,
    ttl: 1,
    budget: ONCE,
    fencing: false,
    drops: true,
    apart: 0,
    left_out: None,
};

#[test]
fn two_clients_at_one_moment() {
    explore("two clients at one moment", PLAIN);
}

#[test]
fn two_clients_at_one_moment_fenced() {
    explore("two clients at one moment, fencing", LockWorld { fencing: true, ..PLAIN });
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn expiry_between_two_clients() {
    explore("expiry", LockWorld { ticks: 2, ..PLAIN });
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn broken_connection_leaves_request() {
    let budget = Budget { breaks: 1, ..ONCE };
    explore("a broken connection", LockWorld { ticks: 1, budget, ..PLAIN });
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn duplicated_message() {
    let budget = Budget { duplicates: 1, ..ONCE };
    explore("a duplicated message", LockWorld { ticks: 1, budget, ..PLAIN });
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn node_loses_its_data() {
    let budget = Budget { crashes: 1, ..ONCE };
    explore("a node loses its data", LockWorld { ticks: 1, budget, ..PLAIN });
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn extension_on_request() {
    let budget = Budget { extends: 1, ..ONCE };
    explore(
        "an extension",
        LockWorld { ticks: 2, ttl: 2, drops: false, apart: 2, budget, ..PLAIN },
    );
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn hand_off_within_a_client() {
    let budget = Budget { hand_offs: 1, ..ONCE };
    explore("a hand-off", LockWorld { ticks: 1, budget, fencing: true, ..PLAIN });
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn lease_lingers_within_a_client() {
    let budget = Budget { hand_offs: 1, lingers: 1, ..ONCE };
    explore("a lease that lingers", LockWorld { ticks: 2, ttl: 2, budget, ..PLAIN });
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn lingering_lease_has_greater_token() {
    let budget = Budget { hand_offs: 1, lingers: 1, ..ONCE };
    let world = LockWorld { ticks: 1, ttl: 2, budget, fencing: true, ..PLAIN };
    explore("a lease that lingers, with fencing", world);
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn second_attempts() {
    explore("second attempts", LockWorld { ticks: 0, budget: TWICE, ..PLAIN });
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn three_clients_at_one_moment() {
    explore("three clients at one moment", LockWorld { clients: 3, ..PLAIN });
}

#[test]
fn two_sharers_at_one_moment() {
    explore("two sharers", LockWorld { sharers: 2, fencing: true, ..PLAIN });
}

#[test]
fn sharer_beside_an_exclusive_client() {
    explore("a sharer", LockWorld { sharers: 1, fencing: true, ..PLAIN });
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn shared_lease_expires_between_two_clients() {
    explore("expiry of a shared lease", LockWorld { sharers: 1, ticks: 2, ..PLAIN });
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn two_sharers_beside_an_exclusive_client() {
    let world = LockWorld { clients: 3, sharers: 2, drops: false, ..PLAIN };
    explore("two sharers beside an exclusive client", world);
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn node_loses_shared_leases() {
    let budget = Budget { crashes: 1, ..ONCE };
    explore("a node loses shared leases", LockWorld { sharers: 1, ticks: 1, budget, ..PLAIN });
}

#[test]
fn exclusive_lease_becomes_a_shared_one() {
    let budget = Budget { downgrades: 1, ..ONCE };
    let world = LockWorld { drops: false, fencing: true, budget, ..PLAIN };
    explore("a downgrade", world);
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn exclusive_lease_that_is_shared_expires() {
    let budget = Budget { downgrades: 1, ..ONCE };
    let world = LockWorld { ticks: 2, drops: false, budget, ..PLAIN };
    explore("a downgrade, with ticks", world);
}

#[test]
fn downgrade_by_a_release_is_unsafe() {
    let budget = Budget { downgrades: 1, ..ONCE };
    let world = LockWorld { drops: false, budget, ..PLAIN };
    violates("a downgrade by a release", without(LockRule::KeepUntilShared, world), "one holder");
}

#[test]
fn sharer_beside_an_exclusive_lease_is_unsafe() {
    let world = LockWorld { sharers: 1, ..PLAIN };
    violates("a sharer is let in", without(LockRule::RefuseSharers, world), "one holder");
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn release_of_all_sharers_is_unsafe() {
    let world = LockWorld { clients: 3, sharers: 2, ..PLAIN };
    violates("a release of all", without(LockRule::KeepOthers, world), "one holder");
}

#[test]
fn sharers_without_fences_have_old_tokens() {
    let world = LockWorld { sharers: 1, fencing: true, ..PLAIN };
    violates("no fences for sharers", without(LockRule::SharedFences, world), "tokens grow");
}

fn without(rule: LockRule, world: LockWorld) -> LockWorld {
    LockWorld { left_out: Some(rule), ..world }
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn release_without_comparing_is_unsafe() {
    let rule = LockRule::CompareOnRelease;
    let world = LockWorld { ticks: 1, budget: TWICE, ..PLAIN };
    violates("release without comparing", without(rule, world), "one holder");
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn validity_from_the_grant_is_unsafe() {
    let rule = LockRule::CountFromStart;
    let world = LockWorld { ticks: 2, ttl: 2, ..PLAIN };
    violates("validity from the grant", without(rule, world), "one holder");
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn lingering_beyond_the_end_is_unsafe() {
    let rule = LockRule::KeptEnd;
    let budget = Budget { hand_offs: 1, lingers: 1, ..ONCE };
    let world = LockWorld { ticks: 2, ttl: 2, budget, ..PLAIN };
    violates("a taken over lease has a new end", without(rule, world), "one holder");
}

#[test]
fn restart_without_probation_is_unsafe() {
    let rule = LockRule::Wait;
    let world = LockWorld { budget: Budget { crashes: 1, ..ONCE }, ..PLAIN };
    violates("restart without probation", without(rule, world), "one holder");
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn restart_without_learning_repeats_tokens() {
    let rule = LockRule::Learn;
    let budget = Budget { crashes: 1, ..ONCE };
    let world = LockWorld { ticks: 1, budget, fencing: true, ..PLAIN };
    violates("restart without learning", without(rule, world), "tokens grow");
}

#[test]
fn nodes_without_fences_repeat_tokens() {
    let rule = LockRule::Fences;
    violates("no fences", without(rule, LockWorld { fencing: true, ..PLAIN }), "tokens grow");
}

#[test]
fn layouts_of_four_nodes_are_unsafe() {
    let rule = LockRule::SameLayout;
    violates("two layouts", without(rule, LockWorld { nodes: 4, ..PLAIN }), "one holder");
}

#[test]
fn command_without_deadline_stores_late() {
    let rule = LockRule::Deadlines;
    let world = LockWorld { ticks: 1, ..PLAIN };
    violates("no deadlines", without(rule, world), "no key for an ended lease");
}
