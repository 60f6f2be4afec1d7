//! Each guard is disabled, and its absence is detected; with the guard the same seed shows no
//! violation.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tower_redlock_sim::{
    control::{Control, controls},
    oracle::Promise,
    world::{Contestant, Profile, Scenario, Settings, Work, run},
};

/// Returns the failure of a control, if any.
fn judge(control: &Control) -> Option<String> {
    let Some((seed, _)) = control.first(0..control.seeds) else {
        return Some(format!("{}: nothing in {} seeds", control.name, control.seeds));
    };
    println!("{}: seed {seed}", control.name);
    if control.contestant != Contestant::Crate {
        return None;
    }
    // Only the guard makes the difference.
    let violations = run(&control.scenario(seed), &Settings::default()).violations;
    (!violations.is_empty()).then(|| format!("with {}, seed {seed}: {violations:?}", control.name))
}

#[test]
fn each_missing_guard_is_found() {
    let (all, next, wrong) = (controls(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(control) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            wrong.lock().unwrap().extend(judge(control));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });

    let wrong = wrong.into_inner().unwrap();

    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The limit of fencing: a set that starts with an empty state, on clocks that are behind its
/// clocks at the previous start.
#[test]
fn tokens_repeat_if_clocks_go_back() {
    let repeats = |seed: &u64| {
        let scenario = Scenario::with(*seed, Profile::Setbacks, Work::Locks);
        let violations = run(&scenario, &Settings::default()).violations;
        violations.iter().any(|violation| violation.promise == Promise::Fencing)
    };
    let found = (0..40).find(repeats);
    println!("clocks put back: seed {found:?}");
    found.expect("a set that forgot, with clocks put back, repeats a token");
}
