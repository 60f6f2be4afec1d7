//! The latest runs of the whole fleet.

use std::time::Duration;

use tower_redlock::{
    Job, Redlock, Schedule,
    node::{ClaimOp, Op},
    schedule::WallTime,
    scheduler::{JobRun, JobRunResult},
};

use crate::scheduler::{
    fleet_control::done,
    scene::{MS, SECOND, Scene, Site, after_start},
    site::Fate,
};

fn history(scene: &Scene, redlock: &Redlock) -> Vec<JobRun> {
    let redlock = redlock.clone();
    done(scene, async move { redlock.job_history("j").await }).unwrap()
}

fn ticks(runs: &[JobRun]) -> Vec<u64> {
    runs.iter().map(|run| after_start(WallTime::from(run.tick))).collect()
}

#[test]
fn runs_of_replicas_are_entered() {
    let scene = Scene::new();
    let sites = ["a", "b", "c"].map(|name| scene.site(name));
    let job = |site: &Site| site.job("j", Schedule::every(10 * SECOND), 2 * SECOND);
    let jobs = sites.each_ref().map(|site| site.start([job(site)]));
    scene.advance(35 * SECOND);
    let runs = history(&scene, &scene.site("d").redlock);
    assert_eq!(ticks(&runs), [10_000, 20_000, 30_000]);
    for (run, entry) in runs.iter().zip(scene.log.entries()) {
        assert_eq!((&*run.owner, run.result), (entry.site, JobRunResult::Finished));
        assert_eq!(run.ended.unwrap().duration_since(run.started).unwrap(), 2 * SECOND);
        assert_eq!((run.attempt, run.trigger, &run.error), (1, None, &None));
        assert!(run.lateness < SECOND, "{:?}", run.lateness);
    }
    let handle = jobs[1].handle.clone();
    assert_eq!(done(&scene, async move { handle.history("j").await }).unwrap(), runs);
}

#[test]
fn latest_fifty_runs_stay() {
    let scene = Scene::new();
    let site = scene.site("a");
    let _jobs = site.start([site.job("j", Schedule::every(SECOND), Duration::ZERO)]);
    scene.advance(60 * SECOND + 500 * MS);
    let runs = history(&scene, &site.redlock);
    assert_eq!((runs.len(), ticks(&runs)[0], ticks(&runs)[49]), (50, 11_000, 60_000));
}

#[test]
fn failures_have_their_error() {
    let scene = Scene::new();
    let site = scene.site("a");
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
    let _jobs = site.start([job.retries(0).max_run(2 * SECOND)]);
    scene.advance(45 * SECOND);
    let runs = history(&scene, &site.redlock);
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
fn crashed_run_is_entered_by_next() {
    let scene = Scene::new();
    let a = scene.site("a");
    let _jobs = a.start([a.job("j", Schedule::every(60 * SECOND), 10 * SECOND)]);
    scene.advance(61 * SECOND);
    a.crash();
    let b = scene.site("b");
    let _jobs = b.start([b.job("j", Schedule::every(60 * SECOND), 10 * SECOND)]);
    scene.advance(80 * SECOND);
    let runs = history(&scene, &b.redlock);
    let told: Vec<_> =
        runs.iter().map(|run| (&*run.owner, run.result, run.ended.is_some())).collect();
    let expected = [("a", JobRunResult::Interrupted, false), ("b", JobRunResult::Finished, true)];
    assert_eq!(told, expected);
    assert_eq!(ticks(&runs), [60_000, 120_000]);
}

#[test]
fn crashed_request_is_entered_by_next() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let job = |site: &Site| site.job("j", Schedule::every(600 * SECOND), 30 * SECOND);
    let _jobs = a.start([job(&a)]);
    scene.advance(SECOND);
    let id = done(&scene, b.redlock.trigger_job("j")).unwrap();
    scene.advance(10 * SECOND);
    let runs = history(&scene, &b.redlock);
    assert_eq!((runs.len(), runs[0].result, runs[0].trigger), (1, JobRunResult::Open, Some(id)));
    a.crash();
    let mut jobs = b.start([job(&b)]);
    scene.advance(60 * SECOND);
    assert_eq!(scene.log.entries().len(), 1, "it is not repeated");
    scene.advance(600 * SECOND);
    let runs = history(&scene, &b.redlock);
    let told: Vec<_> = runs.iter().map(|run| (&*run.owner, run.result, run.trigger)).collect();
    let expected =
        [("a", JobRunResult::Interrupted, Some(id)), ("b", JobRunResult::Finished, None)];
    assert_eq!(told, expected);
    let event = jobs.new_events().into_iter().find(|event| event.trigger == Some(id)).unwrap();
    assert_eq!(crate::scheduler::scene::event_name(&event.kind), "interrupted");
}

#[test]
fn refused_entry_follows_next_run() {
    let scene = Scene::new();
    let site = scene.site("a");
    let jobs = site.start([site.job("j", Schedule::every(10 * SECOND), SECOND)]);
    site.wire.judge(|_, op| match op {
        Op::Claim(ClaimOp { job, .. }) if job.contains("history") => Fate::Refused,
        _ => Fate::Passes,
    });
    scene.advance(15 * SECOND);
    assert_eq!(jobs.status("j").counts.finished, 1, "it does not fail the run");
    assert_eq!(history(&scene, &site.redlock), []);
    site.wire.calm();
    scene.advance(10 * SECOND);
    assert_eq!(ticks(&history(&scene, &site.redlock)), [10_000, 20_000]);
}

#[test]
fn lost_lock_is_entered() {
    let scene = Scene::new();
    let (a, b) = (scene.site("a"), scene.site("b"));
    let _jobs = a.start([a.job("j", Schedule::every(60 * SECOND), 50 * SECOND)]);
    scene.advance(62 * SECOND);
    let revoked = b.redlock.clone();
    done(&scene, async move { revoked.revoke("job:j").await }).unwrap();
    let mut taken = scene.clock.spawn(std::future::IntoFuture::into_future(
        b.redlock.lock(tower_redlock::Resource::of_job("j").unwrap()),
    ));
    scene.advance(30 * SECOND);
    assert!(taken.take().unwrap().is_ok());
    let runs = history(&scene, &b.redlock);
    assert_eq!((runs.len(), runs[0].result), (1, JobRunResult::Lost), "{runs:?}");
    assert!(runs[0].error.is_some() && runs[0].ended.is_some());
}

/// The manager is shut down before the scheduler, while a run is under way.
#[test]
fn end_is_stored_after_managers_shutdown() {
    let scene = Scene::new();
    let site = scene.site("a");
    let jobs = site.start([site.job("j", Schedule::every(10 * SECOND), 3 * SECOND)]);
    scene.advance(10 * SECOND + 500 * MS);
    let redlock = site.redlock.clone();
    let mut closed = scene.clock.spawn(async move { redlock.shutdown().await });
    scene.advance(SECOND);
    let handle = jobs.handle.clone();
    let mut stopped = scene.clock.spawn(async move { handle.shutdown(10 * SECOND).await });

    scene.advance(5 * SECOND);

    assert!(closed.take().is_some() && stopped.take().is_some());
    let runs = history(&scene, &scene.site("b").redlock);
    assert_eq!(ticks(&runs), [10_000]);
    assert_eq!(runs[0].result, JobRunResult::Finished);
    // Another replica knows that the tick was run.
    let next = scene.site("c");
    let _jobs = next.start([next.job("j", Schedule::every(10 * SECOND), SECOND)]);
    scene.advance(SECOND);
    assert_eq!(scene.log.ticks(), [10_000]);
    assert_eq!(scene.nodes.key_counts(), [0; 5]);
}
