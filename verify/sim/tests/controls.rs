//! Each guard is taken out, and what it is for is found; with all guards the same seeds find nothing.

use tower_redlock_sim::{
    control::{Control, controls},
    world::{Contestant, Settings, run},
};

/// The first seed that shows that a guard is missing.
fn found(control: &Control) -> Option<u64> {
    (0..control.seeds).find(|seed| {
        let outcome = run(&control.scene(*seed), &control.settings);
        outcome.violations.iter().any(|violation| violation.promise == control.breaks)
    })
}

#[test]
fn each_guard_that_is_taken_out_is_missed() {
    let mut unnoticed = Vec::new();
    for control in controls() {
        let Some(seed) = found(&control) else {
            unnoticed.push((control.name, control.seeds));
            continue;
        };
        println!("{}: seed {seed}", control.name);
        // The guard alone makes the difference.
        if control.contestant == Contestant::Crate {
            let outcome = run(&control.scene(seed), &Settings::default());
            assert_eq!(outcome.violations, [], "with {}, seed {seed}", control.name);
        }
    }
    assert!(unnoticed.is_empty(), "not found within their seeds: {unnoticed:?}");
}
