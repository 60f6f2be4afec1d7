//! Some seeds of every kind.

use tower_redlock_sim::world::{
    FAILOVER_SEEDS, Other, Profile, SET_SEEDS, STEP_SEEDS, Scene, Settings, run,
};

#[test]
fn seeds_keep_every_promise() {
    let (mut holds, mut ticks, mut once, mut slots, mut shared) = (0, 0, 0, 0, 0);
    for seed in 0..28 {
        let outcome = run(&Scene::of(seed), &Settings::default());
        assert_eq!(outcome.violations, [], "seed {seed}");
        let count = |what| outcome.counts.get(what).copied().unwrap_or(0);
        holds += count("holds");
        ticks += count("ticks");
        once += count("once");
        slots += count("slots");
        shared += count("shared by several");
    }

    let is_idle = holds < 1_000 || slots < 1_000 || shared < 300 || ticks < 30 || once < 30;
    assert!(!is_idle, "idle: {holds} {slots} {shared} {ticks} {once}");
}

#[test]
fn failovers_keep_every_promise() {
    let (mut holds, mut moves) = (0, 0);
    for seed in FAILOVER_SEEDS..FAILOVER_SEEDS + 12 {
        let scene = Scene::of(seed);
        assert_eq!(scene.profile, Profile::Failovers);
        let outcome = run(&scene, &Settings::default());
        assert_eq!(outcome.violations, [], "seed {seed}");
        holds += outcome.counts.get("holds").copied().unwrap_or(0);
        moves += outcome.trace.matches("fault: Promote").count();
    }

    assert!(holds > 500 && moves > 20, "idle: {holds} {moves}");
}

#[test]
fn several_sets_keep_every_promise() {
    let (mut holds, mut refused, mut down, mut strays, mut changes) = (0, 0, 0, 0, 0);
    for seed in SET_SEEDS..SET_SEEDS + 28 {
        let scene = Scene::of(seed);
        let outcome = run(&scene, &Settings::default());
        assert_eq!(outcome.violations, [], "seed {seed}");
        let count = |what| outcome.counts.get(what).copied().unwrap_or(0);
        holds += count("holds");
        refused += count("two sets refused");
        down += count("each set down");
        strays += u64::from(matches!(scene.other, Some(Other::LastClient(_))));
        changes += u64::from(matches!(scene.other, Some(Other::AllClients { .. })));
    }

    let is_idle = holds < 1_000 || refused < 500 || down < 10 || strays < 5 || changes < 5;
    assert!(!is_idle, "idle: {holds} {refused} {down} {strays} {changes}");
}

#[test]
fn small_steps_keep_every_promise() {
    let (mut holds, mut steps) = (0, 0);
    for seed in STEP_SEEDS..STEP_SEEDS + 12 {
        let scene = Scene::of(seed);
        assert_eq!(scene.profile, Profile::Steps);
        let outcome = run(&scene, &Settings::default());
        assert_eq!(outcome.violations, [], "seed {seed}");
        holds += outcome.counts.get("holds").copied().unwrap_or(0);
        steps += outcome.trace.matches("fault: Jump").count();
    }

    assert!(holds > 500 && steps > 50, "idle: {holds} {steps}");
}
