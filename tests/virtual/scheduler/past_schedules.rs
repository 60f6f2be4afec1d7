//! Schedules whose last tick has passed when the job starts.

use std::time::{Duration, SystemTime};

use tower_redlock::{Schedule, scheduler::Missed, time::Clock as _};

use crate::scheduler::{
    fixture::{Fixture, SECOND},
    log_lines::Lines,
};

/// Returns the lines at WARN.
fn warned(test: impl FnOnce()) -> Vec<String> {
    let mut warned = Vec::new();
    Lines::during(|lines| {
        test();
        warned = lines.take("WARN");
    });
    warned
}

/// A single tick, this time after the fixture's first moment.
fn at(fixture: &Fixture, after: Duration) -> Schedule {
    Schedule::at(SystemTime::UNIX_EPOCH + fixture.clock.wall() + after)
}

#[test]
fn past_moment_is_reported_at_start() {
    let fixture = Fixture::new();
    let late = [at(&fixture, 5 * SECOND), at(&fixture, 5 * SECOND)];
    let early = at(&fixture, 15 * SECOND);
    fixture.advance(10 * SECOND);
    let lines = warned(|| {
        let host = fixture.host("a");
        let [skip, all] = late;
        let jobs = host.start([
            host.job("late", skip, SECOND),
            // The job was not registered before the moment, so the tick is not missed.
            host.job("lost", all, SECOND).missed(Missed::RunAll { at_most: 9 }),
            host.job("early", early, SECOND),
            host.job("never", Schedule::custom("never", |_| None), SECOND),
        ]);
        fixture.advance(SECOND);
        let finding = |job: &str| jobs.status(job).finding.map(|finding| finding.to_string());
        let passed = "no tick is left: the last one was 2025-01-01T00:00:05Z; give a later moment";
        assert_eq!(finding("late").as_deref(), Some(passed));
        assert_eq!(finding("lost").as_deref(), Some(passed));
        assert_eq!(finding("never").as_deref(), Some("the schedule has no tick: check its rule"));
        assert_eq!(finding("early"), None);
        fixture.advance(30 * SECOND);
        assert_eq!(finding("early"), None, "the tick was run");
    });
    assert_eq!(fixture.log.ticks(), [15_000]);
    let of = |job: &str| lines.iter().filter(|line| line.contains(&format!("job={job} "))).count();
    assert_eq!([of("late"), of("lost"), of("never"), of("early")], [1, 1, 1, 0], "{lines:?}");
}

#[test]
fn moment_already_run_is_not_reported() {
    let fixture = Fixture::new();
    let once = at(&fixture, 5 * SECOND);
    let host = fixture.host("a");
    let _jobs = host.start([host.job("once", once.clone(), SECOND)]);
    fixture.advance(10 * SECOND);
    assert_eq!(fixture.log.ticks(), [5_000]);
    host.crash();
    let lines = warned(|| {
        let host = fixture.host("b");
        let jobs = host.start([host.job("once", once, SECOND)]);
        fixture.advance(SECOND);
        assert_eq!(jobs.status("once").finding, None);
    });
    assert!(!lines.iter().any(|line| line.contains("job=once ")), "{lines:?}");
}

#[test]
fn moment_missed_during_outage_is_counted() {
    let fixture = Fixture::new();
    let once = at(&fixture, 300 * SECOND);
    let host = fixture.host("a");
    let known = |job: tower_redlock::Job| {
        job.missed(Missed::RunLatest).catch_up(10 * SECOND).start_within(SECOND)
    };
    let _jobs = host.start([known(host.job("once", once.clone(), SECOND))]);
    fixture.advance(10 * SECOND);
    host.crash();
    fixture.advance(600 * SECOND);
    let host = fixture.host("b");
    let mut jobs = host.start([known(host.job("once", once, SECOND))]);
    fixture.advance(SECOND);
    assert_eq!((jobs.status("once").finding, jobs.status("once").counts.missed), (None, 1));
    assert_eq!(jobs.event_names(), ["missed"]);
}
