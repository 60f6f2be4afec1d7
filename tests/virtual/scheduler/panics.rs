//! Panics outside of polls of the work.

use std::{
    error::Error,
    fmt,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tower_redlock::{
    Job, JobContext, Schedule,
    schedule::WallTime,
    scheduler::{JobState, Outcome},
};

use crate::scheduler::{
    fixture::{Fixture, SECOND},
    log_lines::Lines,
};

struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("on drop");
    }
}

#[test]
fn in_drop_of_stopped_work() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let job = Job::new("j", Schedule::every(100 * SECOND), |_: JobContext| async {
            let _kept = PanicsOnDrop;
            pending::<()>().await;
        });
        let jobs = host.start([job.max_run(30 * SECOND)]);
        fixture.advance(331 * SECOND);
        let counts = jobs.status("j").counts;
        assert_eq!((counts.started, counts.timed_out), (3, 3), "the job continues");
        let logged = lines.take("WARN");
        let panics =
            logged.iter().filter(|line| line.contains("on drop") && line.contains("job=j"));
        assert_eq!(panics.count(), 3, "{logged:?}");
    });
}

#[derive(Debug)]
struct UndisplayableError;

impl fmt::Display for UndisplayableError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl Error for UndisplayableError {}

#[test]
fn in_display_of_an_error() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job =
        Job::new("j", Schedule::every(10 * SECOND), |_| async { Err::<(), _>(UndisplayableError) });
    let jobs = host.start([job]);
    fixture.advance(31 * SECOND);
    let status = jobs.status("j");
    assert_eq!(status.counts.panicked, 3);
    let panicked = Outcome::Panicked { message: "no words".into() };
    assert_eq!(status.last.unwrap().outcome, panicked);
}

/// A schedule of every ten seconds, and a flag that makes it panic.
fn faulty() -> (Schedule, Arc<AtomicBool>) {
    let panics = Arc::new(AtomicBool::new(false));
    let faulty = Arc::clone(&panics);
    let rule = move |after: WallTime| {
        assert!(!faulty.load(Ordering::SeqCst), "no calendar");
        Some(WallTime::from_millis((after.as_millis() / 10_000 + 1) * 10_000))
    };
    (Schedule::custom("every 10 s", rule), panics)
}

#[test]
fn in_schedule_between_runs() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let (schedule, panics) = faulty();
        let other = host.job("other", Schedule::every(10 * SECOND), SECOND);
        let jobs = host.start([host.job("j", schedule, SECOND), other]);
        fixture.advance(12 * SECOND);
        panics.store(true, Ordering::SeqCst);
        fixture.advance(10 * SECOND);
        assert_eq!(jobs.status("other").counts.finished, 2, "the other job is not affected");
        let state = jobs.status("j").state;
        assert!(
            matches!(&state, JobState::BackingOff { reason } if reason.contains("no calendar"))
        );
        let logged = lines.take("WARN");
        assert!((1..10).contains(&logged.len()), "attempts have pauses: {logged:?}");
        assert!(logged[0].contains("no calendar") && logged[0].contains("job=j"), "{logged:?}");
        panics.store(false, Ordering::SeqCst);
        fixture.advance(60 * SECOND);
        assert!(jobs.status("j").counts.finished >= 4, "{:?}", jobs.status("j"));
    });
}

#[test]
fn in_schedule_during_a_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (schedule, panics) = faulty();
    let fails = Arc::clone(&panics);
    let clock = host.clock.clone();
    let job = Job::new("j", schedule, move |_: JobContext| {
        fails.store(true, Ordering::SeqCst);
        let (sleep, fails) = (clock.sleep(25 * SECOND), Arc::clone(&fails));
        async move {
            sleep.await;
            fails.store(false, Ordering::SeqCst);
        }
    });
    let jobs = host.start([job]);
    fixture.advance(60 * SECOND);
    assert_eq!(jobs.status("j").counts.finished, 1, "the run was not dropped");
}

#[test]
fn triggers_run_despite_panicking_schedule() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (schedule, panics) = faulty();
    let jobs = host.start([host.job("j", schedule, SECOND)]);
    fixture.advance(2 * SECOND);
    panics.store(true, Ordering::SeqCst);
    let mut run = fixture.clock.spawn(jobs.handle.trigger_here("j").unwrap());
    fixture.advance(2 * SECOND);
    assert_eq!(run.take(), Some(Ok(Outcome::Finished)), "a triggered run needs no schedule");
    assert_eq!(jobs.status("j").counts.finished, 1);
}

#[test]
fn shutdown_awaits_no_pause() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (schedule, panics) = faulty();
    let jobs = host.start([host.job("j", schedule, SECOND)]);
    fixture.advance(2 * SECOND);
    panics.store(true, Ordering::SeqCst);
    fixture.advance(600 * SECOND);
    let mut report = fixture.shutdown(&jobs, 60 * SECOND);
    fixture.advance(Duration::ZERO);
    assert!(report.take().is_some(), "the shutdown waits for no pause");
}

#[test]
fn in_schedule_beside_runs() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (schedule, panics) = faulty();
    let jobs = host.start([host.job("j", schedule, 25 * SECOND).parallel(3)]);
    fixture.advance(22 * SECOND);

    panics.store(true, Ordering::SeqCst);
    fixture.advance(15 * SECOND);

    let status = jobs.status("j");
    assert_eq!((status.counts.panicked, status.counts.finished), (0, 1));
    assert_eq!(status.runs().count(), 1, "the other run has not ended");
    panics.store(false, Ordering::SeqCst);
    fixture.advance(60 * SECOND);
    assert!(jobs.status("j").counts.finished >= 3, "the schedule goes on");
}
