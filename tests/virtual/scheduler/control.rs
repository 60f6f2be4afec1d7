//! Trigger, pause, resume.

use std::time::Duration;

use std::future::IntoFuture;

use tower_redlock::{
    Schedule,
    scheduler::{Missed, Overlap},
};

use crate::scheduler::scene::{MS, SECOND, Scene, with_timeout};

#[test]
fn paused_job_resumes_with_latest_tick() {
    with_timeout(10 * SECOND, || {
        let scene = Scene::new();
        let site = scene.site("a");
        let job = site.job("j", Schedule::every(SECOND), Duration::ZERO).missed(Missed::RunLatest);
        let jobs = site.start([job]);
        jobs.handle.pause_here("j").unwrap();
        scene.advance(10 * SECOND);
        assert_eq!(scene.log.ticks(), [0u64; 0]);
        assert!(jobs.status("j").paused_here.is_some() && jobs.status("j").next_tick.is_none());
        jobs.handle.resume_here("j").unwrap();
        scene.advance(SECOND);
        assert_eq!(scene.log.ticks(), [10_000, 11_000]);
    });
}

#[test]
fn triggers_run_while_paused() {
    let scene = Scene::new();
    let site = scene.site("a");
    let mut jobs = site.start([site.job("j", Schedule::every(100 * SECOND), SECOND)]);
    scene.advance(50 * SECOND);
    jobs.handle.pause_here("j").unwrap();
    jobs.handle.trigger_here("j").unwrap();
    jobs.handle.trigger_here("j").unwrap();
    scene.advance(3 * SECOND);
    assert_eq!(scene.log.ticks(), [50_000, 51_000], "one run at a time");
    assert_eq!(jobs.event_names(), ["started", "finished", "started", "finished"]);
    jobs.handle.resume_here("j").unwrap();
    scene.advance(50 * SECOND);
    assert_eq!(scene.log.ticks(), [50_000, 51_000, 100_000], "the schedule continues");
    let fleet = jobs.status("j").fleet.unwrap();
    assert_eq!(
        crate::scheduler::scene::after_start(tower_redlock::schedule::WallTime::since_epoch(
            fleet.tick.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap()
        )),
        100_000
    );
}

#[test]
fn trigger_of_held_job_is_skipped() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let mut jobs = a.start([a.job("j", Schedule::every(3600 * SECOND), SECOND)]);
    scene.advance(SECOND);
    let mut taken = scene
        .clock
        .spawn(b.redlock.lock(tower_redlock::Resource::of_job("j").unwrap()).into_future());
    scene.clock.settle();
    let lock = taken.take().unwrap().unwrap();
    jobs.handle.trigger_here("j").unwrap();
    scene.advance(SECOND);
    assert_eq!(jobs.event_names(), ["held"]);
    assert_eq!(jobs.status("j").counts.skipped, 0);
    drop(lock);
    scene.advance(60 * SECOND);
    assert_eq!(jobs.event_names(), [""; 0]);
    jobs.handle.trigger_here("j").unwrap();
    scene.advance(2 * SECOND);
    assert_eq!(scene.log.entries().len(), 1);
}

#[test]
fn held_lock_is_requested_rarely() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &crate::scheduler::scene::Site| {
        site.job("j", Schedule::every(3600 * SECOND), 600 * SECOND)
            .claim(tower_redlock::scheduler::Claim::AtEnd)
    };
    let _jobs = [a.start([job(&a)]), b.start([job(&b)])];
    scene.advance(3600 * SECOND);
    let ran = scene.log.sites()[0];
    let idle = if ran == "a" { &b } else { &a };
    idle.wire.sent();
    scene.advance(500 * SECOND);
    assert_eq!(scene.log.entries().len(), 1);
    // Once a TTL: an acquire, its release, and a query of the claim, at each node.
    let sent = idle.wire.sent();
    assert!(sent <= 3 * 5 * 120, "{sent} operations in 500 s");
}

#[test]
fn run_continues_while_paused() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job = site.job("j", Schedule::every(10 * SECOND), 45 * SECOND).overlap(Overlap::Stop);
    let jobs = site.start([job.stop_grace(SECOND)]);
    scene.advance(12 * SECOND);
    jobs.handle.pause_here("j").unwrap();
    scene.advance(45 * SECOND);
    assert_eq!((jobs.status("j").counts.finished, scene.log.entries().len()), (1, 1));
    jobs.handle.resume_here("j").unwrap();
    scene.advance(MS);
    assert_eq!(scene.log.entries().len(), 2);
    // Overlapping ticks stop the run again.
    scene.advance(5 * SECOND);
    assert_eq!(scene.log.ticks()[2..], [60_000]);
}
