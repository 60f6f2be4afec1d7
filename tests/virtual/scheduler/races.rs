//! Calls of the handle while a claim is in flight.

use std::time::Duration;

use std::future::IntoFuture;

use tower_redlock::{Schedule, node::Op};

use crate::scheduler::{
    scene::{MS, SECOND, Scene, Site},
    site::Fate,
};

/// Freezes all nodes at the first claim, so that it stays in flight.
fn freeze_at_claim(scene: &Scene, site: &Site) {
    let nodes = scene.nodes.clone();
    site.wire.judge(move |_, op| {
        if matches!(op, Op::Claim(_)) {
            nodes.freeze(0..5);
        }
        Fate::Passes
    });
}

#[test]
fn tick_claimed_during_shutdown_runs_elsewhere() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| site.job("j", Schedule::every(100 * SECOND), Duration::ZERO);
    let mut at_a = a.start([job(&a)]);
    scene.advance(100 * SECOND);
    assert_eq!(scene.log.ticks(), [100_000]);
    freeze_at_claim(&scene, &a);
    scene.advance(99 * SECOND);
    at_a.new_events();
    scene.advance(SECOND + 2 * MS);
    assert_eq!(scene.log.ticks(), [100_000], "the claim is in flight");
    let handle = at_a.handle.clone();
    let mut report = scene.clock.spawn(async move { handle.shutdown(SECOND).await });
    scene.clock.settle();
    a.wire.calm();
    scene.nodes.thaw(0..5);
    scene.advance(20 * MS);
    assert!(report.take().is_some());
    assert_eq!(at_a.event_names(), [""; 0], "no run starts");
    assert_eq!(scene.nodes.key_counts(), [0; 5]);
    let _b = b.start([job(&b)]);
    scene.advance(SECOND);
    assert_eq!((scene.log.ticks(), scene.log.sites()), (vec![100_000, 200_000], vec!["a", "b"]));
}

#[test]
fn tick_claimed_during_pause_runs_later() {
    let scene = Scene::new();
    let a = scene.site("a");
    let jobs = a.start([a.job("j", Schedule::every(100 * SECOND), Duration::ZERO)]);
    freeze_at_claim(&scene, &a);
    scene.advance(100 * SECOND + 2 * MS);
    jobs.handle.pause_here("j").unwrap();
    a.wire.calm();
    scene.nodes.thaw(0..5);
    scene.advance(SECOND);
    assert_eq!(scene.log.ticks(), [0u64; 0]);
    jobs.handle.resume_here("j").unwrap();
    scene.advance(SECOND);
    assert_eq!(scene.log.ticks(), [100_000]);
}

#[test]
fn ticks_lost_delay_no_later_ones() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = a.job("j", Schedule::every(10 * SECOND), Duration::ZERO).start_within(SECOND);
    let _jobs = a.start([job]);
    // Another client holds the lock from 10 ms before each tick until the tick is too late.
    scene.advance(9_990 * MS);
    for _ in 0..13 {
        let mut taken = scene
            .clock
            .spawn(b.redlock.lock(tower_redlock::Resource::of_job("j").unwrap()).into_future());
        scene.clock.settle();
        let lock = taken.take().unwrap().unwrap();
        scene.advance(2 * SECOND);
        drop(lock);
        scene.advance(8 * SECOND);
    }
    assert_eq!(scene.log.ticks(), [0u64; 0]);
    let mut taken = scene
        .clock
        .spawn(b.redlock.lock(tower_redlock::Resource::of_job("j").unwrap()).into_future());
    scene.clock.settle();
    scene.advance(50 * MS);
    drop(taken.take().unwrap().unwrap());
    scene.advance(100 * MS);
    assert_eq!(scene.log.ticks(), [140_000]);
}
