//! The worlds of servers that forget, and what is found where a rule is left out.

use super::{
    enrolment::{EnrolBudget, EnrolRule, EnrolWorld},
    explore, violates,
};

const LOCKS: EnrolBudget =
    EnrolBudget { blanks: 0, snapshots: 0, cuts: 0, deaths: 0, locks: 2, renewals: 0 };
const ONE_BLANK: EnrolBudget = EnrolBudget { blanks: 1, ..LOCKS };
const TWO_BLANK: EnrolBudget = EnrolBudget { blanks: 2, ..LOCKS };
const SNAPSHOT: EnrolBudget = EnrolBudget { snapshots: 1, ..LOCKS };

/// A client that sees a server restart.
const ONE: EnrolWorld = EnrolWorld {
    max_ttls: &[1],
    ticks: 2,
    is_new: false,
    assumes_new: false,
    budget: ONE_BLANK,
    left_out: None,
};
const TWO: EnrolWorld = EnrolWorld { max_ttls: &[1, 1], ..ONE };
/// Two clients, one of which has shorter locks than the other.
const UNLIKE: EnrolWorld = EnrolWorld { max_ttls: &[1, 2], ..ONE };

/// A client that takes blank servers as new.
const ASSUMING: EnrolWorld =
    EnrolWorld { is_new: true, assumes_new: true, ticks: 1, budget: LOCKS, ..ONE };

#[test]
fn servers_are_assumed_new() {
    explore("servers are assumed new", ASSUMING);
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn two_clients_assume_new_servers() {
    let world = EnrolWorld { max_ttls: &[1, 1], ..ASSUMING };
    explore("two clients assume new servers", world);
}

#[test]
fn server_forgets_beside_an_assumption() {
    let world = EnrolWorld { is_new: false, budget: ONE_BLANK, ..ASSUMING };
    explore("a server forgets, and its client assumes new servers", world);
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn majority_forgets_beside_an_assumption() {
    let world = EnrolWorld { is_new: false, budget: TWO_BLANK, ..ASSUMING };
    explore("a majority forgets, and its client assumes new servers", world);
}

/// Servers that vote, all of which restart with their records.
const ALL_RESTART: EnrolWorld =
    EnrolWorld { is_new: false, budget: EnrolBudget { snapshots: 3, ..LOCKS }, ..ASSUMING };

#[test]
#[ignore = "slow: see verify/model.md"]
fn restarted_servers_are_not_assumed_new() {
    explore("all servers restart", ALL_RESTART);
}

#[test]
fn assumption_about_servers_with_a_past_is_unsafe() {
    let world = without(EnrolRule::Past, ALL_RESTART);
    violates("an assumption against the record", world, "one holder");
}

/// What the assumption is about.
#[test]
fn assumption_is_unsafe_where_all_servers_forget() {
    let budget = EnrolBudget { blanks: 3, ..LOCKS };
    violates("all servers forget", EnrolWorld { budget, ..ALL_RESTART }, "one holder");
}

#[test]
fn server_restarts_blank() {
    explore("a server restarts blank", ONE);
}

#[test]
fn server_restarts_with_old_data() {
    explore("a server restarts with old data", EnrolWorld { budget: SNAPSHOT, ..ONE });
}

#[test]
fn two_clients_see_a_restart() {
    explore("two clients see a restart", EnrolWorld { ticks: 1, ..TWO });
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn two_clients_see_a_restart_longer() {
    explore("two clients see a restart, two ticks", TWO);
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn clients_have_different_ttls() {
    explore("clients have different TTLs", UNLIKE);
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn quorum_starts_anew() {
    explore("a quorum starts anew", EnrolWorld { budget: TWO_BLANK, ..ONE });
}

#[test]
fn client_loses_sight_and_dies() {
    let budget = EnrolBudget { cuts: 1, deaths: 1, renewals: 1, ..ONE_BLANK };
    explore("a client loses sight, and dies", EnrolWorld { ticks: 1, budget, ..ONE });
}

fn without(rule: EnrolRule, world: EnrolWorld) -> EnrolWorld {
    EnrolWorld { left_out: Some(rule), ..world }
}

#[test]
fn unnoticed_restart_is_unsafe() {
    let world = EnrolWorld { budget: SNAPSHOT, ..ONE };
    violates("an unnoticed restart", without(EnrolRule::Run, world), "one holder");
}

#[test]
fn activation_without_wait_is_unsafe() {
    violates("activation without wait", without(EnrolRule::Wait, ONE), "one holder");
}

#[test]
fn activation_without_learning_repeats_tokens() {
    violates("activation without learning", without(EnrolRule::Learn, ONE), "tokens grow");
}

#[test]
fn shorter_wait_than_locks_is_unsafe() {
    violates("a wait for shorter locks", without(EnrolRule::Longer, UNLIKE), "one holder");
}

#[test]
fn start_without_floor_repeats_tokens() {
    let world = EnrolWorld { budget: TWO_BLANK, ..ONE };
    violates("a start without floor", without(EnrolRule::Floor, world), "tokens grow");
}

#[test]
#[ignore = "slow: see verify/model.md"]
fn activation_of_another_enrolment_is_unsafe() {
    let world = EnrolWorld { budget: TWO_BLANK, ..ONE };
    violates("an activation without tag", without(EnrolRule::CompareTag, world), "one holder");
}
