//! The limit on concurrent runs.

use std::time::Duration;

use tower_redlock::{
    Schedule, Scheduler,
    scheduler::{Claim, JobState, MissReason, Missed, SkipReason, StartError},
};

use crate::scheduler::fixture::{Fixture, Host, MS, RunningScheduler, SECOND};

fn start(
    host: &Host,
    runs: usize,
    jobs: impl IntoIterator<Item = tower_redlock::Job>,
) -> RunningScheduler {
    host.run(Scheduler::new(host.redlock.clone()).max_concurrent_runs(runs).jobs(jobs))
}

#[test]
fn waiting_runs_hold_no_lock() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job =
        |number| host.job(&format!("job {number}"), Schedule::every(100 * SECOND), 5 * SECOND);
    let jobs = start(&host, 3, (0..9).map(job));
    fixture.advance(101 * SECOND);
    let states: Vec<_> = jobs.handle.jobs().into_iter().map(|status| status.state).collect();
    let count = |wanted: &JobState| states.iter().filter(|state| *state == wanted).count();
    assert_eq!((count(&JobState::Running), count(&JobState::WaitingForSlot)), (3, 6));
    assert_eq!(fixture.nodes.key_counts(), [3; 5]);
    fixture.advance(15 * SECOND);
    assert_eq!((fixture.log.entries().len(), fixture.log.most_at_a_time()), (9, 3));
    assert!(jobs.handle.jobs().iter().all(|status| status.counts.missed == 0));
}

#[test]
fn slots_are_granted_in_order() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    // Due again when a run ends.
    let greedy = host.job("greedy", Schedule::every(SECOND), 5 * SECOND);
    let greedy = greedy.missed(Missed::RunLatest);
    let others = ["x", "y"].map(|name| host.job(name, Schedule::every(10 * SECOND), SECOND));
    let jobs = start(&host, 1, [greedy].into_iter().chain(others));
    fixture.advance(100 * SECOND);
    assert_eq!(fixture.log.most_at_a_time(), 1);
    for name in ["x", "y"] {
        let counts = jobs.status(name).counts;
        assert!(counts.finished >= 8, "{name}: {counts:?}");
    }
}

#[test]
fn late_slot_misses_with_reason() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let long = host.job("long", Schedule::every(3600 * SECOND), 600 * SECOND);
    let short = host.job("short", Schedule::every(1800 * SECOND), SECOND).start_within(60 * SECOND);
    let mut jobs = start(&host, 1, [long, short]);
    fixture.advance(3599 * SECOND);
    let before = jobs.status("short").counts.finished;
    jobs.handle.pause_here("short").unwrap();
    fixture.advance(2 * SECOND);
    jobs.handle.resume_here("short").unwrap();
    fixture.advance(SECOND);
    assert_eq!(jobs.status("short").state, JobState::WaitingForSlot);
    jobs.new_events();
    fixture.advance(60 * SECOND);
    let missed = jobs.missed();
    let single = missed.iter().find(|(count, ..)| *count == 1);
    assert!(matches!(single, Some((_, _, MissReason::NoSlot))), "{missed:?}");
    assert!(matches!(jobs.status("short").state, JobState::WaitingForTick { .. }));
    fixture.advance(1200 * SECOND);
    assert_eq!(jobs.status("short").counts.finished, before, "no run was waiting");
    fixture.advance(600 * SECOND);
    assert_eq!(jobs.status("short").counts.finished, before + 1);
}

#[test]
fn another_replica_runs_a_waiting_tick() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let only = a.job("only here", Schedule::every(90 * SECOND), 50 * SECOND);
    let both = |host: &Host| host.job("both", Schedule::every(100 * SECOND), SECOND);
    let _a = start(&a, 1, [only, both(&a)]);
    let _b = start(&b, 1, [both(&b)]);
    fixture.advance(102 * SECOND);
    let hosts: Vec<_> = fixture.log.entries().into_iter().map(|run| (run.job, run.host)).collect();
    assert_eq!(hosts, [("only here".to_owned(), "a"), ("both".to_owned(), "b")]);
    fixture.advance(50 * SECOND);
    assert_eq!(fixture.log.entries().len(), 2, "the tick ran once");
}

#[test]
fn pause_between_repetitions_needs_no_slot() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let kept = host.job("kept", Schedule::every(100 * SECOND), SECOND).min_hold(50 * SECOND);
    let other = host.job("other", Schedule::every(100 * SECOND), SECOND).claim(Claim::AtEnd);
    let _jobs = start(&host, 1, [kept, other]);
    fixture.advance(103 * SECOND);
    assert_eq!(fixture.log.entries().len(), 2);
}

#[test]
fn waiting_trigger_is_cancelled_at_shutdown() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = |name| host.job(name, Schedule::every(3600 * SECOND), 10 * SECOND);
    let jobs = start(&host, 1, ["x", "y"].map(job));
    fixture.advance(SECOND);
    jobs.handle.trigger_here("x").unwrap();
    fixture.clock.settle();
    let mut waits = fixture.clock.spawn(jobs.handle.trigger_here("y").unwrap());
    fixture.advance(5 * SECOND);
    assert_eq!(jobs.status("y").state, JobState::WaitingForSlot);
    let mut report = fixture.shutdown(&jobs, 60 * SECOND);
    fixture.advance(MS);
    assert_eq!(waits.take(), Some(Err(SkipReason::Ended)));
    fixture.advance(5 * SECOND);
    assert_eq!(report.take().expect("the shutdown has ended").cancelled.len(), 1);
    assert_eq!(fixture.log.entries().len(), 1);
}

#[test]
fn limit_of_zero_is_refused() {
    let (_, [host]) = Fixture::hosts(["a"]);
    let scheduler = Scheduler::new(host.redlock.clone()).max_concurrent_runs(0);
    let refused = scheduler.spawner(host.clock.spawner()).start().unwrap_err();
    assert_eq!(refused, StartError::NoRuns);
}

#[test]
fn idle_jobs_take_no_slot() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = |number: u32| {
        let job = host.job(&number.to_string(), Schedule::every(3600 * SECOND), Duration::ZERO);
        job.missed(Missed::RunLatest)
    };
    let jobs = start(&host, 1, (0..20).map(job));
    fixture.advance(3601 * SECOND);
    assert!(jobs.handle.jobs().iter().all(|status| status.counts.finished == 1));
}
