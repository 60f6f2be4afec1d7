//! Trigger, pause, resume.

use std::time::Duration;

use tower_redlock::{
    Schedule,
    scheduler::{Missed, Overlap},
};

use crate::scheduler::fixture::{Fixture, MS, SECOND, with_timeout};

#[test]
fn paused_job_resumes_with_latest_tick() {
    with_timeout(10 * SECOND, || {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let job = host.job("j", Schedule::every(SECOND), Duration::ZERO).missed(Missed::RunLatest);
        let jobs = host.start([job]);
        jobs.handle.pause_here("j").unwrap();
        fixture.advance(10 * SECOND);
        assert_eq!(fixture.log.ticks(), [0u64; 0]);
        assert!(jobs.status("j").paused_here.is_some() && jobs.status("j").next_tick.is_none());
        jobs.handle.resume_here("j").unwrap();
        fixture.advance(SECOND);
        assert_eq!(fixture.log.ticks(), [10_000, 11_000]);
    });
}

#[test]
fn triggers_run_while_paused() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([host.job("j", Schedule::every(100 * SECOND), SECOND)]);
    fixture.advance(50 * SECOND);
    jobs.handle.pause_here("j").unwrap();
    jobs.handle.trigger_here("j").unwrap();
    jobs.handle.trigger_here("j").unwrap();
    fixture.advance(3 * SECOND);
    assert_eq!(fixture.log.ticks(), [50_000, 51_000], "one run at a time");
    assert_eq!(jobs.event_names(), ["started", "finished", "started", "finished"]);
    jobs.handle.resume_here("j").unwrap();
    fixture.advance(50 * SECOND);
    assert_eq!(fixture.log.ticks(), [50_000, 51_000, 100_000], "the schedule continues");
    let fleet = jobs.status("j").fleet.unwrap();
    assert_eq!(
        crate::scheduler::fixture::after_start(tower_redlock::schedule::WallTime::since_epoch(
            fleet.tick.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap()
        )),
        100_000
    );
}

#[test]
fn trigger_of_held_job_is_skipped() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let mut jobs = a.start([a.job("j", Schedule::every(3600 * SECOND), SECOND)]);
    fixture.advance(SECOND);
    let lock = fixture.done(b.redlock.lock(tower_redlock::Resource::of_job("j").unwrap())).unwrap();
    jobs.handle.trigger_here("j").unwrap();
    fixture.advance(SECOND);
    assert_eq!(jobs.event_names(), ["held"]);
    assert_eq!(jobs.status("j").counts.skipped, 0);
    drop(lock);
    fixture.advance(60 * SECOND);
    assert_eq!(jobs.event_names(), [""; 0]);
    jobs.handle.trigger_here("j").unwrap();
    fixture.advance(2 * SECOND);
    assert_eq!(fixture.log.entries().len(), 1);
}

#[test]
fn held_lock_is_requested_rarely() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &crate::scheduler::fixture::Host| {
        host.job("j", Schedule::every(3600 * SECOND), 600 * SECOND)
            .claim(tower_redlock::scheduler::Claim::AtEnd)
    };
    let _jobs = [a.start([job(&a)]), b.start([job(&b)])];
    fixture.advance(3600 * SECOND);
    let ran = fixture.log.hosts()[0];
    let idle = if ran == "a" { &b } else { &a };
    idle.wire.sent();
    fixture.advance(500 * SECOND);
    assert_eq!(fixture.log.entries().len(), 1);
    // Once a TTL: an acquire, its release, and a query of the claim, at each node.
    let sent = idle.wire.sent();
    assert!(sent <= 3 * 5 * 120, "{sent} operations in 500 s");
}

#[test]
fn run_continues_while_paused() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = host.job("j", Schedule::every(10 * SECOND), 45 * SECOND).overlap(Overlap::Stop);
    let jobs = host.start([job.stop_grace(SECOND)]);
    fixture.advance(12 * SECOND);
    jobs.handle.pause_here("j").unwrap();
    fixture.advance(45 * SECOND);
    assert_eq!((jobs.status("j").counts.finished, fixture.log.entries().len()), (1, 1));
    jobs.handle.resume_here("j").unwrap();
    fixture.advance(MS);
    assert_eq!(fixture.log.entries().len(), 2);
    // Overlapping ticks stop the run again.
    fixture.advance(5 * SECOND);
    assert_eq!(fixture.log.ticks()[2..], [60_000]);
}
