//! Tests of the plan of faults.

use std::collections::BTreeMap;

use super::*;

fn scene(has_clock_faults: bool) -> Scene {
    let length = Duration::from_secs(300);
    Scene { length, max_ttl: Duration::from_secs(1), workers: 3, has_clock_faults }
}

#[test]
fn a_seed_determines_the_plan() {
    assert_eq!(plan(5, &scene(true)), plan(5, &scene(true)));
    assert_ne!(plan(5, &scene(true)), plan(6, &scene(true)));
}

#[test]
fn majority_is_always_sound() {
    for has_clock_faults in [false, true] {
        (0..20).for_each(|seed| assert_majority(seed, &scene(has_clock_faults)));
    }
}

fn assert_majority(seed: u64, scene: &Scene) {
    let mut faulty_until = [Duration::ZERO; SERVERS];
    let mut busy_until = [Duration::ZERO; SERVERS];
    let mut last = Duration::ZERO;
    for Planned { at, strike } in plan(seed, scene) {
        assert!(at >= last, "in the order of time");
        last = at;
        let Strike::Server(server, fault) = strike else { continue };
        for server in fault.concerns(server) {
            assert!(busy_until[server] <= at, "two faults at once on a server");
            busy_until[server] = at + fault.lasts();
            let until = busy_until[server] + fault.recovery(scene.max_ttl);
            if fault.makes_faulty() {
                faulty_until[server] = faulty_until[server].max(until);
            }
        }
        let faulty = faulty_until.iter().filter(|&&until| until > at).count();
        assert!(faulty <= MOST_FAULTY, "{faulty} servers at {at:?}");
    }
}

#[test]
fn two_servers_often_fail_together() {
    let mut pairs = BTreeMap::new();
    let plan = plan(2, &scene(true));
    for both in plan.windows(2).filter(|both| both[0].at == both[1].at) {
        let of = |name: &str| both.iter().filter(|one| one.strike.name() == name).count();
        *pairs.entry(of("server frozen")).or_insert(0) += 1;
    }
    // Two frozen servers, or two that forget; never one of each.
    assert!(pairs[&0] > 20 && pairs[&2] > 20 && pairs.len() == 2, "{pairs:?}");
}

#[test]
fn only_listed_faults_are_planned() {
    let count = |has_clock_faults| {
        let mut counts = BTreeMap::new();
        for Planned { strike, .. } in plan(1, &scene(has_clock_faults)) {
            *counts.entry(strike.name()).or_insert(0) += 1;
        }
        counts
    };
    for (has_clock_faults, kinds) in [(false, 7), (true, 8)] {
        let counts = count(has_clock_faults);
        assert_eq!(counts.len(), kinds, "{counts:?}");
        assert!(counts.values().all(|&n| n >= 5), "{counts:?}");
    }
}

#[test]
fn frozen_workers_outlast_locks_in_turn() {
    let mut free = Duration::ZERO;
    for Planned { at, strike } in plan(4, &scene(true)) {
        let Strike::Worker(worker, lasts) = strike else { continue };
        assert!(worker < 3 && lasts > Duration::from_secs(1) && at >= free);
        free = at + lasts;
    }
    assert!(free > Duration::ZERO);
}
