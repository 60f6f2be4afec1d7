//! Too few nodes, at the start and later.

use std::time::Duration;

use tower_redlock::{
    Schedule,
    scheduler::{JobEventKind, Missed, SkipReason},
};

use crate::scheduler::fixture::{Fixture, MS, SECOND};

#[test]
fn runs_resume_with_the_quorum() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([host.job("j", Schedule::every(10 * SECOND), Duration::ZERO)]);
    fixture.advance(10 * SECOND);
    assert_eq!(fixture.log.ticks(), [10_000]);
    jobs.new_events();
    fixture.nodes.stop(0..3);
    host.wire.sent();
    fixture.advance(100 * SECOND);
    fixture.advance(MS);
    assert_eq!(fixture.log.ticks(), [10_000]);
    let events = jobs.new_events();
    let reason =
        |kind: &JobEventKind| matches!(kind, JobEventKind::Skipped(SkipReason::Unavailable { .. }));
    let unavailable: Vec<_> = events.iter().filter(|event| reason(&event.kind)).collect();
    assert_eq!(unavailable.len(), 10, "once a tick: {events:?}");
    // One attempt for a tick, and at most one in 2.5 s after the first few; each sends acquires and
    // releases to five nodes.
    let sent = host.wire.sent();
    assert!(sent < 60 * 10, "{sent} operations in 100 s");
    fixture.nodes.start(0..3);
    fixture.advance(5 * SECOND);
    assert_eq!(fixture.log.ticks(), [10_000, 110_000], "the tick is still on time");
    let counts = jobs.status("j").counts;
    assert_eq!((counts.started, counts.skipped, counts.missed), (2, 9, 9), "{counts:?}");
}

#[test]
fn unavailable_delay_is_reported_once() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([host.job("j", Schedule::every_after(SECOND), Duration::ZERO)]);
    fixture.advance(500 * MS);
    assert_eq!(fixture.log.entries().len(), 1);
    jobs.new_events();
    host.wire.sent();
    fixture.nodes.stop(0..3);
    fixture.advance(60 * SECOND);
    assert_eq!(jobs.event_names(), ["unavailable"]);
    // As with ticks: an acquire and its release, at most once in 2.5 s after the first few attempts.
    let sent = host.wire.sent();
    assert!(sent < 10 * 40, "{sent} operations in 60 s");
    fixture.nodes.start(0..3);
    fixture.advance(6 * SECOND);
    assert!(fixture.log.entries().len() >= 2);
}

#[test]
fn unregistered_job_reports_no_tick() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job =
        host.job("j", Schedule::every(3600 * SECOND), Duration::ZERO).missed(Missed::RunLatest);
    let mut jobs = host.start([job]);
    fixture.clock.settle();
    fixture.nodes.stop(0..3);
    fixture.advance(60 * SECOND);
    assert_eq!(jobs.event_names(), [""; 0]);
    assert_eq!(jobs.status("j").counts.skipped, 0);
}

#[test]
fn start_without_nodes_retries_rarely() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    fixture.nodes.stop(0..5);
    let jobs = host.start([host.job("j", Schedule::every(10 * SECOND), Duration::ZERO)]);
    fixture.advance(100 * SECOND);
    let sent = host.wire.sent();
    assert!(sent <= 5 * 40, "{sent}");
    fixture.nodes.start(0..5);
    fixture.advance(17 * SECOND);
    assert_eq!(fixture.log.ticks(), [110_000]);
    assert_eq!(jobs.status("j").counts.started, 1);
}

#[test]
fn shutdown_during_start_returns_at_once() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    fixture.nodes.stop(0..5);
    let jobs = host.start([host.job("j", Schedule::every(SECOND), Duration::ZERO)]);
    fixture.advance(3 * SECOND);
    let mut report = fixture.shutdown(&jobs, 60 * SECOND);
    fixture.advance(100 * MS);
    assert_eq!(report.take(), Some(tower_redlock::scheduler::ShutdownReport::default()));
    fixture.nodes.start(0..5);
    fixture.advance(60 * SECOND);
    assert_eq!(fixture.log.ticks(), [0u64; 0]);
}

#[test]
fn slow_tries_keep_their_backoff() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let _jobs = host.start([host.job("j", Schedule::every_after(SECOND), Duration::ZERO)]);
    fixture.advance(500 * MS);
    host.wire.sent();
    // The tick of the run changes with every attempt.
    fixture.nodes.freeze(0..3);
    fixture.advance(60 * SECOND);
    let sent = host.wire.sent_by_kind();
    assert!(sent["acquire"] < 5 * 40, "{sent:?}");
    assert_eq!(fixture.log.entries().len(), 1);
}
