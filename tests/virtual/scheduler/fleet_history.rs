//! The latest runs of the whole fleet.

use std::time::Duration;

use tower_redlock::{
    Job, Redlock, Schedule,
    node::{ClaimOp, Op},
    schedule::WallTime,
    scheduler::{JobRun, JobRunResult},
};

use crate::scheduler::{
    fixture::{Fixture, Host, MS, SECOND, after_start},
    wire::Fate,
};

fn history(fixture: &Fixture, redlock: &Redlock) -> Vec<JobRun> {
    let redlock = redlock.clone();
    fixture.done(async move { redlock.job_history("j").await }).unwrap()
}

fn ticks(runs: &[JobRun]) -> Vec<u64> {
    runs.iter().map(|run| after_start(WallTime::from(run.tick))).collect()
}

#[test]
fn runs_of_replicas_are_entered() {
    let (fixture, hosts) = Fixture::hosts(["a", "b", "c"]);
    let job = |host: &Host| host.job("j", Schedule::every(10 * SECOND), 2 * SECOND);
    let jobs = hosts.each_ref().map(|host| host.start([job(host)]));
    fixture.advance(35 * SECOND);
    let runs = history(&fixture, &fixture.host("d").redlock);
    assert_eq!(ticks(&runs), [10_000, 20_000, 30_000]);
    for (run, entry) in runs.iter().zip(fixture.log.entries()) {
        assert_eq!((&*run.owner, run.result), (entry.host, JobRunResult::Finished));
        assert_eq!(run.ended.unwrap().duration_since(run.started).unwrap(), 2 * SECOND);
        assert_eq!((run.attempt, run.trigger, &run.error), (1, None, &None));
        assert!(run.lateness < SECOND, "{:?}", run.lateness);
    }
    let handle = jobs[1].handle.clone();
    assert_eq!(fixture.done(async move { handle.history("j").await }).unwrap(), runs);
}

#[test]
fn latest_fifty_runs_stay() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let _jobs = host.start([host.job("j", Schedule::every(SECOND), Duration::ZERO)]);
    fixture.advance(60 * SECOND + 500 * MS);
    let runs = history(&fixture, &host.redlock);
    assert_eq!((runs.len(), ticks(&runs)[0], ticks(&runs)[49]), (50, 11_000, 60_000));
}

#[test]
fn failures_have_their_error() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut number = 0;
    let job = Job::new("j", Schedule::every(10 * SECOND), move |_| {
        number += 1;
        let number = number;
        async move {
            match number {
                1 => Err("no disk\nat line 7"),
                2 => panic!("out of cheese"),
                3 => std::future::pending().await,
                _ => Ok(()),
            }
        }
    });
    let _jobs = host.start([job.retries(0).max_run(2 * SECOND)]);
    fixture.advance(45 * SECOND);
    let runs = history(&fixture, &host.redlock);
    let told: Vec<_> = runs.iter().map(|run| (run.result, run.error.as_deref())).collect();
    assert_eq!(
        told,
        [
            (JobRunResult::Failed, Some("no disk")),
            (JobRunResult::Panicked, Some("out of cheese")),
            (JobRunResult::TimedOut, None),
            (JobRunResult::Finished, None),
        ]
    );
}

#[test]
fn crashed_request_is_entered_by_next() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| host.job("j", Schedule::every(600 * SECOND), 30 * SECOND);
    let _jobs = a.start([job(&a)]);
    fixture.advance(SECOND);
    let id = fixture.done(b.redlock.trigger_job("j")).unwrap();
    fixture.advance(10 * SECOND);
    let runs = history(&fixture, &b.redlock);
    assert_eq!((runs.len(), runs[0].result, runs[0].trigger), (1, JobRunResult::Open, Some(id)));
    a.crash();
    let mut jobs = b.start([job(&b)]);
    fixture.advance(60 * SECOND);
    assert_eq!(fixture.log.entries().len(), 1, "it is not repeated");
    fixture.advance(600 * SECOND);
    let runs = history(&fixture, &b.redlock);
    let told: Vec<_> = runs.iter().map(|run| (&*run.owner, run.result, run.trigger)).collect();
    let expected =
        [("a", JobRunResult::Interrupted, Some(id)), ("b", JobRunResult::Finished, None)];
    assert_eq!(told, expected);
    assert!(runs[0].ended.is_none() && runs[1].ended.is_some());
    let event = jobs.new_events().into_iter().find(|event| event.trigger == Some(id)).unwrap();
    assert_eq!(crate::scheduler::fixture::event_name(&event.kind), "interrupted");
}

#[test]
fn refused_entry_follows_next_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(10 * SECOND), SECOND)]);
    host.wire.apply(
        Fate::Refused,
        |_, op| matches!(op, Op::Claim(ClaimOp { job, .. }) if job.contains("history")),
    );
    fixture.advance(15 * SECOND);
    assert_eq!(jobs.status("j").counts.finished, 1, "it does not fail the run");
    assert_eq!(history(&fixture, &host.redlock), []);
    host.wire.calm();
    fixture.advance(10 * SECOND);
    assert_eq!(ticks(&history(&fixture, &host.redlock)), [10_000, 20_000]);
}

#[test]
fn lost_lock_is_entered() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let _jobs = a.start([a.job("j", Schedule::every(60 * SECOND), 50 * SECOND)]);
    fixture.advance(62 * SECOND);
    let revoked = b.redlock.clone();
    fixture.done(async move { revoked.revoke("job:j").await }).unwrap();
    let mut taken = fixture.clock.spawn(std::future::IntoFuture::into_future(
        b.redlock.lock(tower_redlock::Resource::of_job("j").unwrap()),
    ));
    fixture.advance(30 * SECOND);
    assert!(taken.take().unwrap().is_ok());
    let runs = history(&fixture, &b.redlock);
    assert_eq!((runs.len(), runs[0].result), (1, JobRunResult::Lost), "{runs:?}");
    assert!(runs[0].error.is_some() && runs[0].ended.is_some());
}

/// The manager is shut down before the scheduler, while a run is under way.
#[test]
fn end_is_stored_after_managers_shutdown() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(10 * SECOND), 3 * SECOND)]);
    fixture.advance(10 * SECOND + 500 * MS);
    let redlock = host.redlock.clone();
    let mut closed = fixture.clock.spawn(async move { redlock.shutdown().await });
    fixture.advance(SECOND);
    let mut stopped = fixture.shutdown(&jobs, 10 * SECOND);

    fixture.advance(5 * SECOND);

    assert!(closed.take().is_some() && stopped.take().is_some());
    let runs = history(&fixture, &fixture.host("b").redlock);
    assert_eq!(ticks(&runs), [10_000]);
    assert_eq!(runs[0].result, JobRunResult::Finished);
    // Another replica knows that the tick was run.
    let next = fixture.host("c");
    let _jobs = next.start([next.job("j", Schedule::every(10 * SECOND), SECOND)]);
    fixture.advance(SECOND);
    assert_eq!(fixture.log.ticks(), [10_000]);
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
}
