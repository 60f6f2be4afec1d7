//! Some seeds of every kind.

use tower_redlock_sim::world::{Scene, Settings, run};

#[test]
fn seeds_keep_every_promise() {
    for seed in 0..28 {
        let outcome = run(&Scene::of(seed), &Settings::default());
        assert_eq!(outcome.violations, [], "seed {seed}");
        assert!(outcome.counts.get("holds").is_some_and(|holds| *holds > 20), "seed {seed}: idle");
    }
}
