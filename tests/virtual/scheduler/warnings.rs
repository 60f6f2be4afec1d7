//! Log lines at WARN and INFO.

use std::time::Duration;

use tower_redlock::{Schedule, scheduler::Missed, time::Clock};

use crate::{
    durations::DAY,
    scheduler::{
        fixture::{Fixture, Host, MINUTE, MS, SECOND},
        log_lines::{Lines, has},
    },
};

fn every(host: &Host, minutes: u32) -> tower_redlock::Job {
    host.job("j", Schedule::every(minutes * MINUTE), 5 * SECOND).missed(Missed::RunLatest)
}

#[test]
fn changed_schedule_is_logged_once() {
    Lines::during(|lines| {
        let fixture = Fixture::new();
        let (a, b, c) = (fixture.host("old-a"), fixture.host("new-b"), fixture.host("new-c"));
        let _a = a.start([every(&a, 7)]);
        fixture.advance(30 * MINUTE);
        a.crash();
        lines.take("");
        let _b = b.start([every(&b, 5)]);
        fixture.advance(MINUTE);
        let _c = c.start([every(&c, 5)]);
        fixture.advance(100 * MINUTE);
        let logged = lines.take("");
        let count = |parts: &[&str]| logged.iter().filter(|line| has(line, parts)).count();
        assert_eq!(count(&["INFO", "another schedule", "old-a", "new-b"]), 1, "{logged:?}");
        assert_eq!(count(&["two schedules"]), 0, "{logged:?}");
    });
}

#[test]
fn two_schedules_warn_on_both_sides() {
    Lines::during(|lines| {
        let fixture = Fixture::new();
        let (a, b) = (fixture.host("svc-a"), fixture.host("svc-b"));
        let _a = a.start([every(&a, 7)]);
        fixture.advance(30 * MINUTE);
        let _b = b.start([every(&b, 5)]);
        fixture.advance(59 * MINUTE);
        let logged = lines.take("WARN");
        let count = |parts: &[&str]| logged.iter().filter(|line| has(line, parts)).count();
        assert_eq!(count(&["two schedules", "by=svc-a", "other=svc-b"]), 1, "{logged:?}");
        assert_eq!(count(&["two schedules", "by=svc-b", "other=svc-a"]), 1, "{logged:?}");
        fixture.advance(60 * MINUTE);
        assert_eq!(lines.count("WARN", &["two schedules"]), 2, "again after an hour");
    });
}

#[test]
fn stored_future_time_warns_once() {
    Lines::during(|lines| {
        let fixture = Fixture::new();
        let (a, b) =
            (fixture.host_at("a", fixture.clock.ahead_by(Duration::ZERO)), fixture.host("b"));
        let _a = a.start([every(&a, 60)]);
        fixture.advance(60 * MINUTE + SECOND);
        a.clock.set_wall(a.clock.wall() + 30 * DAY);
        fixture.advance(5 * SECOND);
        a.crash();
        lines.take("");
        let jobs = b.start([every(&b, 60)]);
        fixture.advance(20 * MINUTE);
        for _ in 0..5 {
            jobs.handle.pause_here("j").unwrap();
            jobs.handle.resume_here("j").unwrap();
            fixture.advance(MINUTE);
        }
        assert_eq!(lines.count("WARN", &["job=j", "lies in the future"]), 1);
        fixture.advance(60 * MINUTE);
        assert_eq!(fixture.log.hosts(), ["a", "b"]);
    });
}

#[test]
fn tick_lost_to_crash_warns() {
    Lines::during(|lines| {
        let fixture = Fixture::new();
        let (a, b) = (fixture.host("svc-a"), fixture.host("b"));
        let _a = a.start([every(&a, 60)]);
        fixture.advance(60 * MINUTE + MS);
        a.crash();
        let _b = b.start([every(&b, 60)]);
        fixture.advance(60 * MINUTE);
        let parts = ["job=j", "did not end", "svc-a"];
        assert_eq!(lines.count("WARN", &parts), 1);
    });
}

/// No lock is granted any more, and none is needed.
#[test]
fn end_is_stored_after_managers_shutdown() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let jobs = host.start([every(&host, 1)]);
        fixture.advance(MINUTE + SECOND);
        let redlock = host.redlock.clone();
        let _closed = fixture.clock.spawn(async move { redlock.shutdown().await });
        fixture.advance(SECOND);
        lines.take("");
        host.replica.partition(0..5);

        // Its lock ends meanwhile.
        fixture.advance(30 * SECOND);
        host.replica.heal(0..5);
        let _stopped = fixture.shutdown(&jobs, SECOND);
        fixture.advance(MINUTE);

        let runs = fixture.log.entries();
        assert!(runs[0].ended.is_some());
        let stored = lines.count("INFO", &["an end is stored after all", "name=j"]);
        assert_eq!(stored, 1);
    });
}

/// The job is paused when the end that it owes is stored: its task waits on.
#[test]
fn end_is_stored_while_paused() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let jobs = host.start([every(&host, 1)]);
        fixture.advance(MINUTE + SECOND / 2);
        host.replica.partition(0..5);
        fixture.advance(30 * SECOND);
        jobs.handle.pause_here("j").expect("the job is known");
        assert_eq!(host.redlock.snapshot().owed.len(), 1);
        host.replica.heal(0..5);
        fixture.advance(5 * MINUTE);
        assert_eq!(host.redlock.snapshot().owed, []);
        assert_eq!(lines.count("INFO", &["an end is stored after all", "name=j"]), 1);
        assert_eq!(fixture.log.entries().len(), 1, "it is paused");
    });
}

#[test]
fn end_that_is_given_up_warns() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let _jobs = host.start([every(&host, 1)]);
        fixture.advance(MINUTE + SECOND / 2);
        host.replica.partition(0..5);
        // The work ends, then its lock.
        fixture.advance(30 * SECOND);
        assert_eq!(host.redlock.snapshot().owed.len(), 1);
        assert_eq!(host.redlock.counts().lost, 0, "the work had ended");
        let redlock = host.redlock.clone();
        let _closed = fixture.clock.spawn(async move { redlock.shutdown().await });
        // The fixture's `max_ttl`.
        fixture.advance(10 * MINUTE);
        assert_eq!(lines.count("WARN", &["the end of a run is not stored", "job=j"]), 1);
    });
}
