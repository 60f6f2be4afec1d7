//! Too few nodes, at the start and later.

use std::time::Duration;

use tower_redlock::{
    Schedule,
    scheduler::{JobEventKind, Missed, SkipReason},
};

use crate::scheduler::scene::{MS, SECOND, Scene};

#[test]
fn runs_resume_with_the_quorum() {
    let scene = Scene::new();
    let site = scene.site("a");
    let mut jobs = site.start([site.job("j", Schedule::every(10 * SECOND), Duration::ZERO)]);
    scene.advance(10 * SECOND);
    assert_eq!(scene.log.ticks(), [10_000]);
    jobs.new_events();
    scene.nodes.stop(0..3);
    site.wire.sent();
    scene.advance(100 * SECOND);
    scene.advance(MS);
    assert_eq!(scene.log.ticks(), [10_000]);
    let events = jobs.new_events();
    let reason =
        |kind: &JobEventKind| matches!(kind, JobEventKind::Skipped(SkipReason::Unavailable { .. }));
    let unavailable: Vec<_> = events.iter().filter(|event| reason(&event.kind)).collect();
    assert_eq!(unavailable.len(), 10, "once a tick: {events:?}");
    // One attempt for a tick, and at most one in 2.5 s after the first few; each sends acquires and
    // releases to five nodes.
    let sent = site.wire.sent();
    assert!(sent < 60 * 10, "{sent} operations in 100 s");
    scene.nodes.start(0..3);
    scene.advance(5 * SECOND);
    assert_eq!(scene.log.ticks(), [10_000, 110_000], "the tick is still on time");
    let counts = jobs.status("j").counts;
    assert_eq!((counts.started, counts.skipped, counts.missed), (2, 9, 9), "{counts:?}");
}

#[test]
fn unavailable_delay_is_reported_once() {
    let scene = Scene::new();
    let site = scene.site("a");
    let mut jobs = site.start([site.job("j", Schedule::every_after(SECOND), Duration::ZERO)]);
    scene.advance(500 * MS);
    assert_eq!(scene.log.entries().len(), 1);
    jobs.new_events();
    site.wire.sent();
    scene.nodes.stop(0..3);
    scene.advance(60 * SECOND);
    assert_eq!(jobs.event_names(), ["unavailable"]);
    // As with ticks: an acquire and its release, at most once in 2.5 s after the first few attempts.
    let sent = site.wire.sent();
    assert!(sent < 10 * 40, "{sent} operations in 60 s");
    scene.nodes.start(0..3);
    scene.advance(6 * SECOND);
    assert!(scene.log.entries().len() >= 2);
}

#[test]
fn unregistered_job_reports_no_tick() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job =
        site.job("j", Schedule::every(3600 * SECOND), Duration::ZERO).missed(Missed::RunLatest);
    let mut jobs = site.start([job]);
    scene.clock.settle();
    scene.nodes.stop(0..3);
    scene.advance(60 * SECOND);
    assert_eq!(jobs.event_names(), [""; 0]);
    assert_eq!(jobs.status("j").counts.skipped, 0);
}

#[test]
fn start_without_nodes_retries_rarely() {
    let scene = Scene::new();
    let site = scene.site("a");
    scene.nodes.stop(0..5);
    let jobs = site.start([site.job("j", Schedule::every(10 * SECOND), Duration::ZERO)]);
    scene.advance(100 * SECOND);
    let sent = site.wire.sent();
    assert!(sent <= 5 * 40, "{sent}");
    scene.nodes.start(0..5);
    scene.advance(17 * SECOND);
    assert_eq!(scene.log.ticks(), [110_000]);
    assert_eq!(jobs.status("j").counts.started, 1);
}

#[test]
fn shutdown_during_start_returns_at_once() {
    let scene = Scene::new();
    let site = scene.site("a");
    scene.nodes.stop(0..5);
    let jobs = site.start([site.job("j", Schedule::every(SECOND), Duration::ZERO)]);
    scene.advance(3 * SECOND);
    let handle = jobs.handle.clone();
    let mut report = scene.clock.spawn(async move { handle.shutdown(60 * SECOND).await });
    scene.advance(100 * MS);
    assert_eq!(report.take(), Some(tower_redlock::scheduler::ShutdownReport::default()));
    scene.nodes.start(0..5);
    scene.advance(60 * SECOND);
    assert_eq!(scene.log.ticks(), [0u64; 0]);
}

#[test]
fn slow_tries_keep_their_backoff() {
    let scene = Scene::new();
    let site = scene.site("a");
    let _jobs = site.start([site.job("j", Schedule::every_after(SECOND), Duration::ZERO)]);
    scene.advance(500 * MS);
    site.wire.sent();
    // The tick of the run changes with every attempt.
    scene.nodes.freeze(0..3);
    scene.advance(60 * SECOND);
    let sent = site.wire.sent_by_kind();
    assert!(sent["acquire"] < 5 * 40, "{sent:?}");
    assert_eq!(scene.log.entries().len(), 1);
}
