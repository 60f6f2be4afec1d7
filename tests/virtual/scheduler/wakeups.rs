//! Ticks that wait for a run elsewhere, under a lock with a long TTL.

use std::time::Duration;

use tower_redlock::{
    Job, Schedule,
    scheduler::{Claim, Overlap},
};

use crate::scheduler::scene::{MS, RunningScheduler, SECOND, Scene, Site};

const MINUTE: Duration = Duration::from_secs(60);
/// Maximum time from a release to the next run.
const WOKEN: Duration = Duration::from_millis(300);

/// Two replicas with a job of 100 s each minute. The first tick's run continues, and the second tick
/// has come.
fn during_a_run(scene: &Scene, change: impl Fn(Job) -> Job) -> [(Site, RunningScheduler); 2] {
    let both = ["a", "b"].map(|name| {
        let site = scene.site(name);
        let job = site.job("j", Schedule::every(MINUTE), 100 * SECOND);
        let job = job.ttl(MINUTE).start_within(10 * SECOND);
        let jobs = site.start([change(job)]);
        scene.clock.settle();
        (site, jobs)
    });
    scene.advance(130 * SECOND);
    assert_eq!(scene.log.ticks(), [60_000]);
    let [a, b] = both;
    if scene.log.sites() == ["a"] { [a, b] } else { [b, a] }
}

fn shut_down(scene: &Scene, jobs: &RunningScheduler, grace: Duration) {
    let handle = jobs.handle.clone();
    let _task = scene.clock.spawn(async move { handle.shutdown(grace).await });
    scene.clock.settle();
}

#[test]
fn shutdown_hands_over_the_queued_tick() {
    let scene = Scene::new();
    let [(runner, jobs), (other, _other)] = during_a_run(&scene, |job| job.overlap(Overlap::Queue));
    shut_down(&scene, &jobs, MINUTE);
    scene.advance(30 * SECOND + WOKEN);
    assert_eq!(scene.log.sites(), [runner.name, other.name]);
    assert_eq!(scene.log.ticks(), [60_000, 120_000]);
}

#[test]
fn interrupted_run_repeats_at_once() {
    let scene = Scene::new();
    let [(runner, jobs), (other, _other)] = during_a_run(&scene, |job| job.claim(Claim::AtEnd));
    shut_down(&scene, &jobs, SECOND);
    scene.advance(SECOND + WOKEN);
    assert_eq!(scene.log.sites(), [runner.name, other.name]);
    assert_eq!(scene.log.entries()[1].attempt, 2);
}

/// The runner continues the schedule itself: no other replica takes the lock.
#[test]
fn queued_tick_costs_others_one_read() {
    let scene = Scene::new();
    let [(runner, _jobs), (other, _other)] =
        during_a_run(&scene, |job| job.overlap(Overlap::Queue));
    scene.advance(29 * SECOND);
    other.wire.sent();
    scene.advance(10 * SECOND);
    assert_eq!(scene.log.sites(), [runner.name; 2]);
    let sent = other.wire.sent_by_kind();
    assert_eq!(sent.into_iter().collect::<Vec<_>>(), [("claims", scene.nodes.len())]);
}

#[test]
fn skipped_tick_wakes_no_replica() {
    let scene = Scene::new();
    let [(_runner, _jobs), (other, _other)] = during_a_run(&scene, |job| job);
    scene.advance(29 * SECOND);
    other.wire.sent();
    scene.advance(10 * SECOND);
    assert_eq!(scene.log.ticks(), [60_000]);
    // It looks for the lock of the run a few times a TTL.
    let sent = other.wire.sent_by_kind();
    assert!(sent.iter().all(|(kind, _)| ["other", "claims"].contains(kind)), "{sent:?}");
}

#[test]
fn queued_tick_follows_remote_trigger() {
    let scene = Scene::new();
    let [a, b] = ["a", "b"].map(|name| scene.site(name));
    let job = |site: &Site| {
        let job = site.job("j", Schedule::every(MINUTE), 30 * SECOND);
        job.ttl(MINUTE).start_within(10 * SECOND).overlap(Overlap::Queue)
    };
    let (at_a, _at_b) = (a.start([job(&a)]), b.start([job(&b)]));
    at_a.handle.pause_here("j").unwrap();
    scene.advance(37 * SECOND);
    at_a.handle.trigger_here("j").unwrap();
    scene.advance(29 * SECOND);
    assert_eq!(scene.log.sites(), ["a"]);
    scene.advance(SECOND + WOKEN + 10 * MS);
    assert_eq!(scene.log.sites(), ["a", "b"]);
}

/// Runs for 15 min, every 10 min: the next tick is queued.
fn queueing_job(site: &Site) -> Job {
    let job = site.job("j", Schedule::every(10 * MINUTE), 15 * MINUTE);
    job.start_within(10 * SECOND).overlap(Overlap::Queue)
}

/// For another replica, the tick is late long before the run has ended.
#[test]
fn queued_tick_outlasts_start_within() {
    let scene = Scene::new();
    let [a, b] = ["a", "b"].map(|name| scene.site(name));
    let mut jobs = [a.start([queueing_job(&a)]), b.start([queueing_job(&b)])];
    scene.advance(24 * MINUTE);
    assert_eq!(scene.log.ticks(), [600_000]);
    let runner = usize::from(scene.log.sites() == ["b"]);
    let names = jobs[1 - runner].event_names();
    assert!(!names.contains(&"missed"), "{names:?}");
    shut_down(&scene, &jobs[runner], 10 * MINUTE);
    scene.advance(MINUTE + WOKEN);
    assert_eq!(scene.log.ticks(), [600_000, 1_200_000]);
    assert_ne!(scene.log.sites()[0], scene.log.sites()[1]);
}

/// No end is stored: the queued tick counts as late.
#[test]
fn crashed_runner_misses_the_queued_tick() {
    let scene = Scene::new();
    let [a, b] = ["a", "b"].map(|name| scene.site(name));
    let mut jobs = [a.start([queueing_job(&a)]), b.start([queueing_job(&b)])];
    scene.advance(24 * MINUTE);
    let (runner, other) = if scene.log.sites() == ["a"] { (&a, 1) } else { (&b, 0) };
    jobs[other].event_names();
    runner.crash();
    scene.advance(MINUTE);
    assert_eq!(jobs[other].event_names(), ["missed"; 2], "the run that crashed, and the tick");
    scene.advance(6 * MINUTE);
    assert_eq!(scene.log.ticks(), [600_000, 1_800_000]);
}
