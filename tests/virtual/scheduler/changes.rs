//! Jobs that are added, replaced and removed while the scheduler runs.

use std::time::Duration;

use tower_redlock::{
    Job, Schedule,
    scheduler::{JobEventKind, JobState, ShutdownReport, StartError},
};

use crate::scheduler::fixture::{Fixture, MS, SECOND};

#[test]
fn added_job_runs() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([]);
    fixture.advance(30 * SECOND);
    jobs.handle.add(host.job("j", Schedule::every(SECOND), Duration::ZERO)).unwrap();
    fixture.advance(2 * SECOND + 500 * MS);
    assert_eq!(fixture.log.ticks(), [31_000, 32_000]);
    assert_eq!(jobs.handle.jobs().len(), 1);
    let mut stops = fixture.clock.spawn({
        let handle = jobs.handle.clone();
        async move { handle.shutdown(SECOND).await }
    });
    fixture.advance(SECOND);
    assert_eq!(stops.take().unwrap(), ShutdownReport::default());
    let late = jobs.handle.add(host.job("k", Schedule::every(SECOND), Duration::ZERO));
    assert_eq!(late, Err(StartError::ShuttingDown));
}

#[test]
fn invalid_job_is_not_added() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(SECOND), Duration::ZERO)]);
    fixture.advance(SECOND);
    let job = |name: &str| host.job(name, Schedule::every(SECOND), Duration::ZERO);
    let duplicate = jobs.handle.add(job("j"));
    assert_eq!(duplicate, Err(StartError::DuplicateJob { job: "j".into() }));
    assert!(matches!(jobs.handle.add(job("")), Err(StartError::InvalidJob { .. })));
    let too_long = jobs.handle.replace(job("j").max_run(Duration::ZERO));
    assert!(matches!(too_long, Err(StartError::InvalidJob { .. })));
    let unknown = jobs.handle.replace(job("k"));
    assert_eq!(unknown, Err(StartError::UnknownJob { job: "k".into() }));
    fixture.advance(SECOND);
    assert_eq!((fixture.log.entries().len(), jobs.handle.jobs().len()), (2, 1));
}

#[test]
fn removal_waits_for_current_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([host.job("j", Schedule::every(10 * SECOND), 5 * SECOND)]);
    fixture.advance(11 * SECOND);
    let mut removed = fixture.remove(&jobs, "j");
    fixture.advance(3 * SECOND);
    assert!(removed.take().is_none() && jobs.status("j").running.is_some());
    fixture.advance(2 * SECOND);
    removed.take().unwrap().unwrap();
    assert!(fixture.log.entries()[0].finished);
    assert_eq!(jobs.handle.jobs(), []);
    let last = jobs.new_events().pop().unwrap().kind;
    assert_eq!(last, JobEventKind::Ended { reason: "the job was removed".into() });
    fixture.advance(30 * SECOND);
    assert_eq!(fixture.log.entries().len(), 1);
    // The name is free again, and earlier ticks are not run again.
    jobs.handle.add(host.job("j", Schedule::every(10 * SECOND), Duration::ZERO)).unwrap();
    fixture.advance(10 * SECOND);
    assert_eq!(fixture.log.ticks().last(), Some(&50_000));
    let handle = jobs.handle.clone();
    assert!(fixture.done(async move { handle.remove("none").await }).is_err());
}

#[test]
fn removed_job_without_nodes_ends() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    host.replica.partition(0..5);
    let jobs = host.start([]);
    jobs.handle.add(host.job("j", Schedule::every(SECOND), Duration::ZERO)).unwrap();
    fixture.advance(SECOND);
    assert!(matches!(jobs.status("j").state, JobState::WaitingForNodes { .. }));
    let mut removed = fixture.remove(&jobs, "j");
    fixture.advance(10 * SECOND);
    removed.take().unwrap().unwrap();
    assert_eq!(jobs.handle.jobs(), []);
}

#[test]
fn replacement_begins_after_current_run() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(10 * SECOND), 5 * SECOND)]);
    fixture.advance(11 * SECOND);
    let log = fixture.log.clone();
    let clock = fixture.clock.clone();
    let new = Job::new("j", Schedule::every(SECOND), move |cx| {
        let ended = log.begin("new", &cx, &clock);
        async move { ended.finished() }
    });
    jobs.handle.replace(new).unwrap();
    fixture.advance(3_500 * MS);
    assert_eq!(jobs.status("j").counts.started, 1, "one run at a time");
    fixture.advance(4 * SECOND);
    let entries = fixture.log.entries();
    assert!(entries[0].finished && entries[0].host == "a");
    let ticks: Vec<_> = fixture.log.ticks()[1..].to_vec();
    assert_eq!(ticks, [16_000, 17_000, 18_000], "{entries:?}");
    assert!(entries[1..].iter().all(|run| run.host == "new"));
    let status = jobs.status("j");
    assert_eq!((&*status.schedule, status.counts.finished), ("every second", 4));
}

#[test]
fn shutdown_covers_changed_jobs() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = |name: &str| host.job(name, Schedule::every(10 * SECOND), 60 * SECOND);
    let jobs = host.start([job("removed"), job("replaced")]);
    jobs.handle.add(job("added")).unwrap();
    fixture.advance(11 * SECOND);
    assert_eq!(fixture.log.entries().len(), 3);
    jobs.handle.replace(job("replaced")).unwrap();
    let mut removed = fixture.remove(&jobs, "removed");
    fixture.advance(SECOND);
    let mut stops = fixture.shutdown(&jobs, 5 * SECOND);
    fixture.advance(10 * SECOND);
    let mut stopped = stops.take().unwrap().stopped;
    stopped.sort();
    assert_eq!(stopped, ["added", "removed", "replaced"].map(std::sync::Arc::<str>::from));
    removed.take().unwrap().unwrap();
    fixture.advance(30 * SECOND);
    assert_eq!(fixture.log.entries().len(), 3);
}
