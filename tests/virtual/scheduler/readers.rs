//! Jobs that read a resource under a shared lock, beside other readers.

use std::{future::IntoFuture as _, time::Duration};

use tower_redlock::{
    Job, JobContext, LockOptions, Schedule, Scheduler,
    node::{ExtendOp, Op},
    scheduler::{Outcome, StartError},
};

use crate::scheduler::{
    scene::{RunningScheduler, SECOND, Scene, Site},
    site::Fate,
};

/// Prints the report for this time, while readers may read it and no writer writes it.
fn print(site: &Site, takes: Duration) -> RunningScheduler {
    let (log, clock, redlock) = (site.log.clone(), site.clock.clone(), site.redlock.clone());
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
    site.start([job])
}

#[test]
fn job_reads_beside_readers() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let _jobs = print(&a, 5 * SECOND);
    let mut request = scene.clock.spawn(b.redlock.lock("report").shared().into_future());
    scene.clock.settle();
    let reader = request.take().unwrap().unwrap();

    scene.advance(106 * SECOND);

    assert!(reader.is_valid() && reader.is_shared());
    assert!(scene.log.entries().iter().all(|run| run.finished));
    assert_eq!(scene.log.ticks(), [100_000]);
}

#[test]
fn job_waits_for_a_writer() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let jobs = print(&a, 5 * SECOND);
    scene.advance(99 * SECOND);
    let mut request = scene.clock.spawn(b.redlock.lock("report").into_future());
    scene.clock.settle();
    let writer = request.take().unwrap().unwrap();
    scene.advance(20 * SECOND);
    assert_eq!(scene.log.entries().len(), 0, "the writer has the report");
    assert!(jobs.status("print").running.is_some(), "the tick is claimed");

    drop(writer);
    scene.advance(7 * SECOND);

    assert_eq!(jobs.status("print").last.unwrap().outcome, Outcome::Finished);
    assert_eq!(scene.log.entries().len(), 1);
}

#[test]
fn loss_of_the_readers_lock_stops_the_work() {
    let scene = Scene::new();
    let site = scene.site("a");
    let jobs = print(&site, 60 * SECOND);
    scene.advance(101 * SECOND);

    // The job's own lock is renewed.
    site.wire.judge(|_, op| match op {
        Op::Extend(ExtendOp { lease, .. }) if lease.resource().names().eq(["report"]) => {
            Fate::Refused
        }
        _ => Fate::Passes,
    });
    scene.advance(59 * SECOND);

    let run = &scene.log.entries()[0];
    assert!(run.ended.is_some() && !run.finished);
    let outcome = jobs.status("print").last.unwrap().outcome;
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
}

#[test]
fn shared_lock_of_a_job_is_refused() {
    let site = Scene::new().site("a");
    let job = site.job("j", Schedule::every(SECOND), SECOND);
    let job = job.options(LockOptions::new().shared(true));

    let started = Scheduler::new(site.redlock.clone()).job(job).spawner(site.clock.spawner());

    let Err(StartError::InvalidJob { reason, .. }) = started.start() else {
        panic!("it is not refused")
    };
    assert!(reason.contains("shared does not apply"), "{reason}");
    assert!(reason.contains("redlock.lock(…).shared().run(…)"), "{reason}");
}
