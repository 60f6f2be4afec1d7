//! The limit on concurrent runs.

use std::time::Duration;

use tower_redlock::{
    Schedule, Scheduler,
    scheduler::{Claim, JobEventKind, JobState, MissReason, Missed, SkipReason, StartError},
};

use crate::scheduler::scene::{MS, RunningScheduler, SECOND, Scene, Site};

fn start(
    site: &Site,
    runs: usize,
    jobs: impl IntoIterator<Item = tower_redlock::Job>,
) -> RunningScheduler {
    site.run(Scheduler::new(site.redlock.clone()).max_concurrent_runs(runs).jobs(jobs))
}

fn most_at_once(scene: &Scene) -> usize {
    let runs = scene.log.entries();
    let at = |moment| {
        let is_going = |run: &&crate::scheduler::scene::Entry| {
            run.began <= moment && run.ended.is_none_or(|ended| moment < ended)
        };
        runs.iter().filter(is_going).count()
    };
    runs.iter().map(|run| at(run.began)).max().unwrap_or(0)
}

#[test]
fn waiting_runs_hold_no_lock() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job =
        |number| site.job(&format!("job {number}"), Schedule::every(100 * SECOND), 5 * SECOND);
    let jobs = start(&site, 3, (0..9).map(job));
    scene.advance(101 * SECOND);
    let states: Vec<_> = jobs.handle.jobs().into_iter().map(|status| status.state).collect();
    let count = |wanted: &JobState| states.iter().filter(|state| *state == wanted).count();
    assert_eq!((count(&JobState::Running), count(&JobState::WaitingForSlot)), (3, 6));
    assert_eq!(scene.nodes.key_counts(), [3; 5]);
    scene.advance(15 * SECOND);
    assert_eq!((scene.log.entries().len(), most_at_once(&scene)), (9, 3));
    assert!(jobs.handle.jobs().iter().all(|status| status.counts.missed == 0));
}

#[test]
fn slots_are_granted_in_order() {
    let scene = Scene::new();
    let site = scene.site("a");
    // Due again when a run ends.
    let greedy = site.job("greedy", Schedule::every(SECOND), 5 * SECOND);
    let greedy = greedy.missed(Missed::RunLatest);
    let others = ["x", "y"].map(|name| site.job(name, Schedule::every(10 * SECOND), SECOND));
    let jobs = start(&site, 1, [greedy].into_iter().chain(others));
    scene.advance(100 * SECOND);
    assert_eq!(most_at_once(&scene), 1);
    for name in ["x", "y"] {
        let counts = jobs.status(name).counts;
        assert!(counts.finished >= 8, "{name}: {counts:?}");
    }
}

#[test]
fn late_slot_misses_with_reason() {
    let scene = Scene::new();
    let site = scene.site("a");
    let long = site.job("long", Schedule::every(3600 * SECOND), 600 * SECOND);
    let short = site.job("short", Schedule::every(1800 * SECOND), SECOND).start_within(60 * SECOND);
    let mut jobs = start(&site, 1, [long, short]);
    scene.advance(3599 * SECOND);
    let before = jobs.status("short").counts.finished;
    jobs.handle.pause_here("short").unwrap();
    scene.advance(2 * SECOND);
    jobs.handle.resume_here("short").unwrap();
    scene.advance(SECOND);
    assert_eq!(jobs.status("short").state, JobState::WaitingForSlot);
    jobs.new_events();
    scene.advance(60 * SECOND);
    let events = jobs.new_events();
    let why = events.iter().find_map(|event| match &event.kind {
        JobEventKind::Missed { why, count: 1, .. } => Some(why.clone()),
        _ => None,
    });
    assert_eq!(why, Some(MissReason::NoSlot), "{events:?}");
    assert!(matches!(jobs.status("short").state, JobState::WaitingForTick { .. }));
    scene.advance(1200 * SECOND);
    assert_eq!(jobs.status("short").counts.finished, before, "no run was waiting");
    scene.advance(600 * SECOND);
    assert_eq!(jobs.status("short").counts.finished, before + 1);
}

#[test]
fn another_replica_runs_a_waiting_tick() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let only = a.job("only here", Schedule::every(90 * SECOND), 50 * SECOND);
    let both = |site: &Site| site.job("both", Schedule::every(100 * SECOND), SECOND);
    let _a = start(&a, 1, [only, both(&a)]);
    let _b = start(&b, 1, [both(&b)]);
    scene.advance(102 * SECOND);
    let sites: Vec<_> = scene.log.entries().into_iter().map(|run| (run.job, run.site)).collect();
    assert_eq!(sites, [("only here".to_owned(), "a"), ("both".to_owned(), "b")]);
    scene.advance(50 * SECOND);
    assert_eq!(scene.log.entries().len(), 2, "the tick ran once");
}

#[test]
fn pause_between_repetitions_needs_no_slot() {
    let scene = Scene::new();
    let site = scene.site("a");
    let kept = site.job("kept", Schedule::every(100 * SECOND), SECOND).min_hold(50 * SECOND);
    let other = site.job("other", Schedule::every(100 * SECOND), SECOND).claim(Claim::AtEnd);
    let _jobs = start(&site, 1, [kept, other]);
    scene.advance(103 * SECOND);
    assert_eq!(scene.log.entries().len(), 2);
}

#[test]
fn waiting_trigger_is_cancelled_at_shutdown() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job = |name| site.job(name, Schedule::every(3600 * SECOND), 10 * SECOND);
    let jobs = start(&site, 1, ["x", "y"].map(job));
    scene.advance(SECOND);
    jobs.handle.trigger_here("x").unwrap();
    scene.clock.settle();
    let mut waits = scene.clock.spawn(jobs.handle.trigger_here("y").unwrap());
    scene.advance(5 * SECOND);
    assert_eq!(jobs.status("y").state, JobState::WaitingForSlot);
    let handle = jobs.handle.clone();
    let mut report = scene.clock.spawn(async move { handle.shutdown(60 * SECOND).await });
    scene.advance(MS);
    assert_eq!(waits.take(), Some(Err(SkipReason::Ended)));
    scene.advance(5 * SECOND);
    assert_eq!(report.take().expect("the shutdown has ended").cancelled.len(), 1);
    assert_eq!(scene.log.entries().len(), 1);
}

#[test]
fn limit_of_zero_is_refused() {
    let scene = Scene::new();
    let site = scene.site("a");
    let scheduler = Scheduler::new(site.redlock.clone()).max_concurrent_runs(0);
    let refused = scheduler.spawner(site.clock.spawner()).start().unwrap_err();
    assert_eq!(refused, StartError::NoRuns);
}

#[test]
fn idle_jobs_take_no_slot() {
    let scene = Scene::new();
    let site = scene.site("a");
    let job = |number: u32| {
        let job = site.job(&number.to_string(), Schedule::every(3600 * SECOND), Duration::ZERO);
        job.missed(Missed::RunLatest)
    };
    let jobs = start(&site, 1, (0..20).map(job));
    scene.advance(3601 * SECOND);
    assert!(jobs.handle.jobs().iter().all(|status| status.counts.finished == 1));
}
