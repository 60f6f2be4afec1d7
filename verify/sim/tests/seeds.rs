//! Some seeds of every kind.

use std::{collections::BTreeMap, ops::Range};

use tower_redlock_sim::world::{
    FAILOVER_SEEDS, Other, Outcome, Profile, SET_SEEDS, STEP_SEEDS, Scenario, Settings, run,
};

/// Runs seeds, which must keep every promise. Returns the numbers of their events.
fn run_all(
    seeds: Range<u64>,
    mut inspect: impl FnMut(&Scenario, &Outcome),
) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for seed in seeds {
        let scenario = Scenario::of(seed);
        let outcome = run(&scenario, &Settings::default());
        assert_eq!(outcome.violations, [], "seed {seed}");
        inspect(&scenario, &outcome);
        for (what, count) in outcome.counts {
            *counts.entry(what).or_default() += count;
        }
    }
    counts
}

#[test]
fn seeds_keep_every_promise() {
    let counts = run_all(0..28, |_, _| {});

    let is_busy = counts["holds"] >= 1_000
        && counts["slots"] >= 1_000
        && counts["shared by several"] >= 300
        && counts["ticks"] >= 30
        && counts["once"] >= 30;
    assert!(is_busy, "idle: {counts:?}");
}

#[test]
fn seeds_of_one_profile_keep_every_promise() {
    for (first, profile, fault, most_idle) in [
        (FAILOVER_SEEDS, Profile::Failovers, "fault: Promote", 20),
        (STEP_SEEDS, Profile::Steps, "fault: Jump", 50),
    ] {
        let mut faults = 0;
        let counts = run_all(first..first + 12, |scenario, outcome| {
            assert_eq!(scenario.profile, profile);
            faults += outcome.trace.matches(fault).count();
        });

        let is_busy = counts["holds"] > 500 && faults > most_idle;
        assert!(is_busy, "{profile:?} idle: {counts:?}, {faults}");
    }
}

#[test]
fn several_sets_keep_every_promise() {
    let (mut strays, mut changes) = (0, 0);
    let counts = run_all(SET_SEEDS..SET_SEEDS + 28, |scenario, _| {
        strays += u64::from(matches!(scenario.other, Some(Other::LastClient(_))));
        changes += u64::from(matches!(scenario.other, Some(Other::AllClients { .. })));
    });

    let is_busy = counts["holds"] >= 1_000
        && counts["two sets refused"] >= 500
        && counts["each set down"] >= 10
        && strays >= 5
        && changes >= 5;
    assert!(is_busy, "idle: {counts:?} {strays} {changes}");
}
