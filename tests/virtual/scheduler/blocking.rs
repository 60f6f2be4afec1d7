//! Work that blocks its thread.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    time::Duration,
};

use tower_redlock::{
    Job, JobContext, Schedule,
    scheduler::{Overlap, ShutdownReport},
};

use crate::scheduler::fixture::{Fixture, Host, MS, RunningScheduler, SECOND, with_timeout};

/// Work that blocks until the test ends it.
pub(crate) struct BlockingWork {
    pub(crate) begun: Receiver<JobContext>,
    pub(crate) end: Sender<()>,
}

pub(crate) fn blocking_job(name: &str) -> (Job, BlockingWork) {
    let (tell, begun) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let ends = Mutex::new(ends);
    let job = Job::blocking(name, Schedule::every(SECOND), move |cx: JobContext| {
        tell.send(cx).unwrap();
        let _ = ends.lock().unwrap().recv();
    });
    (job, BlockingWork { begun, end })
}

/// Waits for an event of the job's thread; returns the names of all events until then.
pub(crate) fn wait_for(
    fixture: &Fixture,
    jobs: &mut RunningScheduler,
    name: &str,
) -> Vec<&'static str> {
    let mut names = Vec::new();
    while !names.contains(&name) {
        fixture.clock.settle();
        names.extend(jobs.event_names());
        std::thread::yield_now();
    }
    names
}

fn started(fixture: &Fixture) -> (Host, RunningScheduler, BlockingWork, JobContext) {
    let host = fixture.host("a");
    let (job, work) = blocking_job("j");
    let jobs = host.start([job.overlap(Overlap::Stop).stop_grace(100 * MS).retries(3)]);
    fixture.advance(SECOND);
    let cx = work.begun.recv().unwrap();
    (host, jobs, work, cx)
}

#[test]
fn overlapped_work_keeps_its_lock() {
    with_timeout(20 * SECOND, || {
        let fixture = Fixture::new();
        let (_site, mut jobs, work, cx) = started(&fixture);
        fixture.advance(30 * SECOND);
        assert!(cx.ensure_valid().is_ok());
        assert_eq!(fixture.nodes.key_counts(), [1; 5]);
        assert_eq!(jobs.status("j").counts.started, 1);
        work.end.send(()).unwrap();
        let names = wait_for(&fixture, &mut jobs, "finished");
        assert_eq!(names[..2], ["claimed", "started"]);
        assert_eq!(names.iter().filter(|name| **name == "stopping").count(), 1);
        fixture.advance(SECOND);
        assert!(work.begun.recv().unwrap().tick() > cx.tick());
    });
}

#[test]
fn shutdown_reports_work_still_running() {
    with_timeout(20 * SECOND, || {
        let fixture = Fixture::new();
        let (_site, mut jobs, work, cx) = started(&fixture);
        let mut report = fixture.shutdown(&jobs, SECOND);
        fixture.advance(2 * SECOND);
        let ShutdownReport { stopped, still_running, .. } =
            report.take().expect("the shutdown returns");
        assert_eq!((stopped.len(), still_running), (0, vec![Arc::from("j")]));
        assert!(cx.ensure_valid().is_ok(), "the lock stays valid");
        assert_eq!(fixture.nodes.key_counts(), [1; 5]);
        work.end.send(()).unwrap();
        wait_for(&fixture, &mut jobs, "finished");
        assert_eq!(fixture.nodes.key_counts(), [0; 5]);
        fixture.advance(5 * SECOND);
        assert!(work.begun.try_recv().is_err());
    });
}

#[test]
fn shutdown_stops_between_two_attempts() {
    with_timeout(20 * SECOND, || {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let (tell, begun) = mpsc::channel();
        let job = Job::blocking("j", Schedule::every(3600 * SECOND), move |cx: JobContext| {
            tell.send((cx.attempt(), cx.fencing_token())).unwrap();
            Err::<(), _>("no")
        });
        let mut jobs = host.start([job.retries(5).backoff(10 * SECOND)]);
        fixture.advance(Duration::ZERO);
        jobs.handle.trigger_here("j").unwrap();
        fixture.clock.settle();
        let first = begun.recv().unwrap();
        wait_for(&fixture, &mut jobs, "retrying");
        let mut report = fixture.shutdown(&jobs, SECOND);
        fixture.advance(SECOND);
        wait_for(&fixture, &mut jobs, "stopped");
        fixture.advance(SECOND);
        assert!(report.take().is_some());
        assert_eq!(first.0, 1);
        assert!(begun.try_recv().is_err());
        assert_eq!(fixture.nodes.key_counts(), [0; 5]);
    });
}

#[test]
fn work_outlasting_its_lock_is_awaited() {
    with_timeout(20 * SECOND, || {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let (job, work) = blocking_job("j");
        let mut jobs = host.start([job.max_run(5 * SECOND)]);
        fixture.advance(SECOND);
        let cx = work.begun.recv().unwrap();
        fixture.advance(20 * SECOND);
        assert!(cx.ensure_valid().is_err());
        assert!(jobs.status("j").running.is_some());
        work.end.send(()).unwrap();
        wait_for(&fixture, &mut jobs, "finished");
    });
}

#[test]
fn blocking_work_can_enter_the_runtime() {
    with_timeout(20 * SECOND, || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (tell, answers) = mpsc::channel();
        let job = Job::blocking("j", Schedule::every(10 * MS), move |_: JobContext| {
            let answer = tokio::runtime::Handle::try_current().map(|runtime| {
                runtime.block_on(async {
                    // A timer of the runtime has to fire, which takes real time.
                    tokio::time::sleep(MS).await;
                    7
                })
            });
            let _ = tell.send(answer.ok());
        });
        let _entered = runtime.enter();
        let scheduler = tower_redlock::Scheduler::new(tower_redlock::Redlock::embedded());
        let jobs = scheduler.job(job).start().unwrap();
        assert_eq!(answers.recv().unwrap(), Some(7));
        runtime.block_on(jobs.shutdown(SECOND));
    });
}
