//! Triggered runs and their outcomes.

use std::time::Duration;

use tower_redlock::{
    Job, Schedule,
    scheduler::{JobEventKind, JobState, Outcome, SkipReason, Trigger, TriggerError},
    testing::Task,
};

use crate::scheduler::fixture::{Fixture, HOUR, MS, RunningScheduler, SECOND};

type End = Result<Outcome, SkipReason>;

fn ask(fixture: &Fixture, jobs: &RunningScheduler) -> (u64, Task<End>) {
    let trigger: Trigger = jobs.handle.trigger_here("j").unwrap();
    (trigger.id(), fixture.clock.spawn(trigger))
}

#[test]
fn outcome_and_events_carry_the_id() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let clock = host.clock.clone();
    let mut runs = 0;
    let job = Job::new("j", Schedule::every(HOUR), move |_| {
        runs += 1;
        let (run, sleep) = (runs, clock.sleep(SECOND));
        async move {
            sleep.await;
            if run == 1 { Err("no") } else { Ok(()) }
        }
    });
    let mut jobs = host.start([job]);
    fixture.advance(SECOND);
    let ((first, mut failed), (second, mut finished)) =
        (ask(&fixture, &jobs), ask(&fixture, &jobs));
    assert!(second > first);
    fixture.advance(1_500 * MS);
    assert_eq!(failed.take(), Some(Ok(Outcome::Failed { error: "no".into() })));
    assert!(!finished.is_finished());
    fixture.advance(SECOND);
    assert_eq!(finished.take(), Some(Ok(Outcome::Finished)));
    let ids: Vec<_> = jobs.new_events().iter().map(|event| event.trigger).collect();
    assert_eq!(ids, [Some(first), Some(first), Some(second), Some(second)]);
    fixture.advance(HOUR);
    assert!(
        jobs.new_events().iter().all(|event| event.trigger.is_none()),
        "runs of ticks have no id"
    );
}

#[test]
fn dropped_trigger_still_runs() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(HOUR), SECOND)]);
    drop(jobs.handle.trigger_here("j").unwrap());
    fixture.advance(2 * SECOND);
    assert_eq!(jobs.status("j").counts.finished, 1);
}

#[test]
fn skipped_trigger_returns_the_reason() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let jobs = a.start([a.job("j", Schedule::every(HOUR), SECOND)]);
    fixture.advance(SECOND);
    let lock = fixture.done(b.redlock.lock(tower_redlock::Resource::of_job("j").unwrap())).unwrap();
    let (_, mut held) = ask(&fixture, &jobs);
    fixture.advance(SECOND);
    assert_eq!(held.take(), Some(Err(SkipReason::Held { by: Some("b".into()) })));
    drop(lock);
    fixture.nodes.stop(0..5);
    let (_, mut unavailable) = ask(&fixture, &jobs);
    fixture.advance(SECOND);
    let end = unavailable.take();
    assert!(matches!(end, Some(Err(SkipReason::Unavailable { .. }))), "{end:?}");
}

#[test]
fn shutdown_cancels_pending_triggers() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([host.job("j", Schedule::every(HOUR), 10 * SECOND)]);
    fixture.advance(SECOND);
    let ((_, mut running), (second, mut pending)) = (ask(&fixture, &jobs), ask(&fixture, &jobs));
    fixture.advance(SECOND);
    let mut report = fixture.shutdown(&jobs, 60 * SECOND);
    fixture.clock.settle();
    assert_eq!(jobs.handle.trigger_here("j").unwrap_err(), TriggerError::ShuttingDown);
    fixture.advance(20 * SECOND);
    assert_eq!(running.take(), Some(Ok(Outcome::Finished)), "the run ended within the grace");
    assert_eq!(pending.take(), Some(Err(SkipReason::Ended)));
    assert_eq!(report.take().unwrap().cancelled, [second]);
    let ended = JobEventKind::Skipped(SkipReason::Ended);
    assert!(
        jobs.new_events().iter().any(|event| event.kind == ended && event.trigger == Some(second))
    );
    assert!(matches!(jobs.status("j").state, JobState::Ended { .. }));
}

#[test]
fn closed_manager_ends_the_job() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let mut jobs = host.start([host.job("j", Schedule::every(10 * SECOND), SECOND)]);
    fixture.advance(SECOND);
    let redlock = host.redlock.clone();
    let mut closed = fixture.clock.spawn(async move { redlock.shutdown().await });
    fixture.advance(SECOND);
    assert!(closed.take().is_some());
    let state = jobs.status("j").state;
    assert!(
        matches!(&state, JobState::Ended { reason } if reason.contains("shut down")),
        "{state:?}"
    );
    let error = jobs.handle.trigger_here("j").unwrap_err();
    assert!(matches!(error, TriggerError::Ended { .. }) && error.to_string().contains("\"j\""));
    fixture.advance(10 * SECOND);
    let ended = |kind: &JobEventKind| matches!(kind, JobEventKind::Ended { .. });
    assert_eq!(jobs.new_events().iter().filter(|event| ended(&event.kind)).count(), 1);
}

#[test]
fn at_most_thousand_are_pending() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([host.job("j", Schedule::every(HOUR), Duration::ZERO)]);
    for _ in 0..1_000 {
        jobs.handle.trigger_here("j").unwrap();
    }
    let refused = jobs.handle.trigger_here("j").unwrap_err();
    assert!(matches!(refused, TriggerError::TooMany { pending: 1_000, .. }), "{refused}");
    fixture.advance(SECOND);
    assert_eq!(jobs.status("j").counts.started, 1_000);
}
