//! A seed gives the same outcome in every run.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use tower_redlock::{
    testing::{ManualClock, Nodes},
    time::Clock,
};

use crate::durations::SECOND;

/// The holders and their times, in nanoseconds, of three replicas without release hints.
fn turns(seed: u64) -> Vec<(&'static str, u64)> {
    let clock = ManualClock::with_seed(seed);
    let nodes = Nodes::new(3, &clock);
    let turns = Arc::new(Mutex::new(Vec::new()));
    for name in ["a", "b", "c"] {
        let redlock = nodes.replica(name).builder().wakeups(false).build().unwrap();
        let (turns, of_task) = (Arc::clone(&turns), clock.clone());
        drop(clock.spawn(async move {
            for _ in 0..5 {
                let lock = redlock.lock("x").wait(60 * SECOND).await.unwrap();
                turns.lock().unwrap().push((name, of_task.now().as_nanos()));
                of_task.sleep(SECOND / 10).await;
                drop(lock);
                of_task.sleep(SECOND / 100).await;
            }
        }));
    }
    clock.advance(60 * SECOND);
    std::mem::take(&mut *turns.lock().unwrap())
}

#[test]
fn seed_determines_order_of_grants() {
    let mut all = HashSet::new();
    for seed in 0..10 {
        let first = turns(seed);
        assert_eq!(first.len(), 15);
        assert_eq!(turns(seed), first, "seed {seed}");
        all.insert(first);
    }
    assert_eq!(all.len(), 10, "pauses are drawn");
}
