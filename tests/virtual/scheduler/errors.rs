//! Jobs and managers that are refused at the start.

use std::time::Duration;

use tower_redlock::{Job, Redlock, Schedule, Scheduler, scheduler::StartError};

use crate::scheduler::fixture::{Fixture, SECOND};

fn job(name: &str, schedule: impl Into<Schedule>) -> Job {
    Job::new(name, schedule, |_| async {})
}

fn every() -> Schedule {
    Schedule::every(SECOND)
}

fn refused(redlock: Redlock, jobs: impl IntoIterator<Item = Job>) -> String {
    let clock = tower_redlock::testing::ManualClock::new();
    let started = Scheduler::new(redlock).jobs(jobs).spawner(clock.spawner()).start();
    started.expect_err("it can't be run").to_string()
}

#[test]
fn invalid_jobs_are_named() {
    let events = |jobs: Vec<Job>| refused(Redlock::embedded(), jobs);
    assert_eq!(
        events(vec![job("x", every()), job("x", every())]),
        r#"there are two jobs named "x""#
    );
    assert_eq!(events(vec![job("", every())]), r#"job "": the name is empty"#);
    let long = events(vec![job(&"x".repeat(600), every())]);
    assert!(long.contains("can't be used"), "{long}");
    let zero = events(vec![job("x", Schedule::every(Duration::ZERO))]);
    assert!(zero.starts_with(r#"the schedule of job "x": "#), "{zero}");
    let hold = events(vec![job("x", every()).max_run(SECOND).min_hold(2 * SECOND)]);
    assert_eq!(hold, r#"job "x": min_hold is longer than max_run"#);
    assert!(events(vec![job("x", every()).max_run(Duration::ZERO)]).contains("max_run is zero"));
    assert!(
        events(vec![job("x", every()).start_within(Duration::ZERO)])
            .contains("start_within is zero")
    );
    let ttl = events(vec![job("x", every()).ttl(3600 * SECOND)]);
    assert!(ttl.starts_with(r#"job "x": "#) && ttl.contains("max_ttl(3600s)"), "{ttl}");
    let many = (0..10_001).map(|number| job(&number.to_string(), every())).collect();
    assert!(events(many).contains("10001 jobs"));
}

#[test]
fn unusable_managers_are_refused() {
    let fixture = Fixture::new();
    let unfenced = fixture.nodes.replica("a").builder().fencing(false).build().unwrap();
    assert!(refused(unfenced, []).contains("without fencing(false)"));
    let closed = fixture.nodes.replica("a").redlock();
    let closing = closed.clone();
    let mut shut = fixture.clock.spawn(async move { closing.shutdown().await });
    fixture.advance(SECOND);
    assert!(shut.take().is_some());
    assert!(refused(closed, [job("x", every())]).contains("shut down"));
    let without_runtime = Scheduler::new(Redlock::embedded()).job(job("x", every())).start();
    assert_eq!(without_runtime.err(), Some(StartError::NoRuntime));
    let host = fixture.host("a");
    let running = host.start([job("x", every())]);
    let unknown = running.handle.trigger_here("y").unwrap_err();
    assert_eq!(unknown.to_string(), r#"the scheduler has no job named "y""#);
    assert!(running.handle.pause_here("y").is_err() && running.handle.resume_here("y").is_err());
}
