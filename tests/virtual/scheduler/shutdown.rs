//! Shutdown of a scheduler.

use std::{sync::Arc, time::Duration};

use tower_redlock::{
    Job, JobContext, Redlock, Schedule, Scheduler,
    node::{ClaimOp, Op},
    scheduler::{Claim, ShutdownReport},
};

use crate::scheduler::{
    fixture::{Fixture, Host, MS, SECOND, with_timeout},
    wire::Fate,
};

/// A job that runs for a while after a stop request.
fn slow(host: &Host, name: &str, stops_within: Duration) -> Job {
    let (log, at, clock) = (host.log.clone(), host.name, host.clock.clone());
    Job::new(name, Schedule::every(10 * SECOND), move |cx: JobContext| {
        let (ended, clock) = (log.begin(at, &cx, &clock), clock.clone());
        async move {
            cx.stopping().await;
            clock.sleep(stops_within).await;
            ended.finished();
        }
    })
}

#[test]
fn runs_are_asked_awaited_then_dropped() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let quick = slow(&host, "quick", SECOND);
    let mut jobs = host.start([quick, slow(&host, "slow", 60 * SECOND)]);
    fixture.advance(15 * SECOND);
    assert_eq!(fixture.nodes.key_counts(), [2; 5]);
    jobs.new_events();
    let mut report = fixture.shutdown(&jobs, 3 * SECOND);
    fixture.clock.settle();
    assert_eq!(jobs.event_names(), ["stopping", "stopping"]);
    fixture.advance(SECOND + MS);
    assert_eq!(jobs.event_names(), ["finished"]);
    assert_eq!(fixture.nodes.key_counts(), [1; 5]);
    assert_eq!(jobs.status("quick").counts.finished, 1);
    fixture.advance(1990 * MS);
    assert!(!report.is_finished(), "the grace has not passed");
    assert_eq!(fixture.nodes.key_counts(), [1; 5]);
    fixture.advance(20 * MS);
    assert_eq!(jobs.event_names().last(), Some(&"stopped"));
    let ShutdownReport { stopped, still_running, .. } =
        report.take().expect("the shutdown has ended");
    assert_eq!((stopped, still_running.len()), (vec![Arc::from("slow")], 0));
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
    let runs = fixture.log.entries();
    assert!(runs.iter().all(|run| run.ended.is_some() && run.finished == (run.job == "quick")));
    jobs.handle.trigger_here("quick").unwrap_err();
    fixture.advance(60 * SECOND);
    assert_eq!(fixture.log.entries().len(), 2, "no run starts");
    assert_eq!(jobs.status("quick").next_tick, None);
}

#[test]
fn stopped_run_repeats_only_at_end() {
    for claim in [Claim::AtStart, Claim::AtEnd] {
        let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
        let every = || Schedule::every(3_600 * SECOND);
        let at_a = a.start([a.job("j", every(), 100 * SECOND).claim(claim)]);
        fixture.advance(3_600 * SECOND);
        let _b = b.start([b.job("j", every(), 100 * SECOND).claim(claim)]);
        fixture.advance(5 * SECOND);
        let mut report = fixture.shutdown(&at_a, Duration::ZERO);
        fixture.advance(12 * SECOND);
        let report = report.take().unwrap();
        assert_eq!(report.stopped.len(), 1, "{report:?} {:?}", fixture.log.entries());
        let expected: &[_] = if claim == Claim::AtEnd { &["a", "b"] } else { &["a"] };
        assert_eq!(fixture.log.hosts(), expected);
        fixture.advance(300 * SECOND);
        assert_eq!(fixture.log.hosts(), expected);
        assert_eq!(fixture.log.entries().last().unwrap().finished, claim == Claim::AtEnd);
    }
}

#[test]
fn returns_after_the_runtime_is_gone() {
    with_timeout(20 * SECOND, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let started = runtime.block_on(async {
            let job = Job::new("j", Schedule::every(SECOND), |_| async {});
            Scheduler::new(Redlock::embedded()).job(job).start().unwrap()
        });
        // Before its task was polled.
        drop(runtime);
        let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let report = other.block_on(started.shutdown(10 * MS));
        assert_eq!(report, ShutdownReport::default());
    });
}

#[test]
fn pause_between_attempts_ends_at_once() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let every = || Schedule::every(3_600 * SECOND);
    let failing = Job::new("j", every(), |_| async { Err::<(), _>("no") });
    let mut at_a = a.start([failing.retries(5).backoff(50 * SECOND).claim(Claim::AtEnd)]);
    fixture.advance(3_600 * SECOND);
    let _b = b.start([b.job("j", every(), SECOND).claim(Claim::AtEnd)]);
    // After several renewals.
    fixture.advance(40 * SECOND);
    at_a.new_events();
    let mut report = fixture.shutdown(&at_a, 30 * SECOND);
    fixture.clock.settle();
    assert_eq!(report.take(), Some(ShutdownReport::default()), "before the grace has passed");
    assert_eq!(at_a.event_names(), ["stopped"]);
    fixture.advance(20 * SECOND);
    assert_eq!((fixture.log.hosts(), fixture.log.entries()[0].attempt), (vec!["b"], 2));
}

#[test]
fn unstored_end_is_abandoned_after_grace() {
    with_timeout(20 * SECOND, || {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let jobs = host.start([host.job("j", Schedule::every(10 * SECOND), SECOND)]);
        host.wire.apply(
            Fate::Refused,
            |_, op| matches!(op, Op::Claim(ClaimOp { claim, .. }) if claim.run.ended.is_some()),
        );
        fixture.advance(15 * SECOND);
        assert_eq!(fixture.nodes.key_counts(), [1; 5], "the lock is held while the end is stored");
        let mut report = fixture.shutdown(&jobs, 3 * SECOND);
        fixture.advance(2_900 * MS);
        assert!(!report.is_finished());
        fixture.advance(200 * MS);
        assert_eq!(report.take(), Some(ShutdownReport::default()));
        assert_eq!(fixture.nodes.key_counts(), [0; 5]);
    });
}

#[test]
fn awaits_the_releases() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    // The end of such a run is not stored; only its lock is released.
    let job = slow(&host, "j", 60 * SECOND).claim(Claim::AtEnd);
    let jobs = host.start([job]);
    fixture.advance(15 * SECOND);
    fixture.nodes.freeze(0..5);
    let mut report = fixture.shutdown(&jobs, Duration::ZERO);
    fixture.clock.settle();
    assert!(fixture.log.entries()[0].ended.is_some() && !report.is_finished());
    fixture.nodes.thaw(0..5);
    fixture.advance(2 * SECOND);
    assert_eq!(report.take().expect("the releases are acknowledged").stopped.len(), 1);
}
