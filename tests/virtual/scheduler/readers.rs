//! Jobs that read a resource under a shared lock, beside other readers.

use std::time::Duration;

use tower_redlock::{
    Job, JobContext, LockOptions, Schedule, Scheduler,
    node::{ExtendOp, Op},
    scheduler::{Outcome, StartError},
};

use crate::scheduler::{
    fixture::{Fixture, Host, RunningScheduler, SECOND},
    wire::Fate,
};

/// Prints the report for this time, while readers may read it and no writer writes it.
fn print(host: &Host, takes: Duration) -> RunningScheduler {
    let (log, clock, redlock) = (host.log.clone(), host.clock.clone(), host.redlock.clone());
    let job = Job::new("print", Schedule::every(100 * SECOND), move |cx: JobContext| {
        let readers = redlock.lock("report").shared().wait(60 * SECOND);
        let (log, clock) = (log.clone(), clock.clone());
        async move {
            let work = readers.run(|_| async {
                let ended = log.begin("a", &cx, &clock);
                clock.sleep(takes).await;
                ended.finished();
            });
            work.await
        }
    });
    host.start([job])
}

#[test]
fn job_reads_beside_readers() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let _jobs = print(&a, 5 * SECOND);
    let reader = fixture.done(b.redlock.lock("report").shared()).unwrap();

    fixture.advance(106 * SECOND);

    assert!(reader.is_valid() && reader.is_shared());
    assert!(fixture.log.entries().iter().all(|run| run.finished));
    assert_eq!(fixture.log.ticks(), [100_000]);
}

#[test]
fn job_waits_for_a_writer() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let jobs = print(&a, 5 * SECOND);
    fixture.advance(99 * SECOND);
    let writer = fixture.done(b.redlock.lock("report")).unwrap();
    fixture.advance(20 * SECOND);
    assert_eq!(fixture.log.entries().len(), 0, "the writer has the report");
    assert!(jobs.status("print").running.is_some(), "the tick is claimed");
    drop(writer);
    fixture.advance(7 * SECOND);
    assert_eq!(jobs.status("print").last.unwrap().outcome, Outcome::Finished);
    assert_eq!(fixture.log.entries().len(), 1);
}

#[test]
fn loss_of_the_readers_lock_stops_the_work() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = print(&host, 60 * SECOND);
    fixture.advance(101 * SECOND);

    // The job's own lock is renewed.
    host.wire.judge(|_, op| match op {
        Op::Extend(ExtendOp { lease, .. }) if lease.resource().names().eq(["report"]) => {
            Fate::Refused
        }
        _ => Fate::Passes,
    });
    fixture.advance(59 * SECOND);

    let run = &fixture.log.entries()[0];
    assert!(run.ended.is_some() && !run.finished);
    let outcome = jobs.status("print").last.unwrap().outcome;
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
}

#[test]
fn shared_lock_of_a_job_is_refused() {
    let host = Fixture::new().host("a");
    let job = host.job("j", Schedule::every(SECOND), SECOND);
    let job = job.options(LockOptions::new().shared(true));

    let started = Scheduler::new(host.redlock.clone()).job(job).spawner(host.clock.spawner());

    let Err(StartError::InvalidJob { reason, .. }) = started.start() else {
        panic!("it is not refused")
    };
    assert!(reason.contains("shared does not apply"), "{reason}");
    assert!(reason.contains("redlock.lock(…).shared().run(…)"), "{reason}");
}
