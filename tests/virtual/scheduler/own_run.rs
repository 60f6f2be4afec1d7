//! Calls from inside a run to what manages the run: each returns at once, and what it began is finished.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use tower_redlock::{
    Job, JobContext, Schedule,
    scheduler::{JobState, SchedulerHandle, SkipReason},
};

use crate::scheduler::scene::{MS, RunningScheduler, SECOND, Scene, Site};

type Call =
    Arc<dyn Fn(SchedulerHandle) -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

/// What the calls returned.
type Said = Arc<Mutex<Vec<String>>>;

/// A scheduler with the job `self`, each of whose runs makes a call and then takes a second; and a job that
/// runs beside it.
fn calling<F>(
    site: &Site,
    call: impl Fn(SchedulerHandle) -> F + Send + Sync + 'static,
) -> (RunningScheduler, Said)
where
    F: Future<Output = String> + Send + 'static,
{
    let call: Call = Arc::new(move |handle| Box::pin(call(handle)));
    let (handle, said) = (Arc::<OnceLock<SchedulerHandle>>::default(), Said::default());
    let (known, all, clock) = (Arc::clone(&handle), Arc::clone(&said), site.clock.clone());
    let work = move |_: JobContext| {
        let (known, all, clock) = (Arc::clone(&known), Arc::clone(&all), clock.clone());
        let call = Arc::clone(&call);
        async move {
            let handle = known.get().unwrap().clone();
            let answer = call(handle).await;
            all.lock().unwrap().push(answer);
            clock.sleep(SECOND).await;
            all.lock().unwrap().push("after it".into());
        }
    };
    let every = Schedule::every(10 * SECOND);
    let own = Job::new("self", every.clone(), work).max_run(60 * SECOND);
    let jobs = site.start([own, site.job("other", every, 3 * SECOND)]);
    handle.set(jobs.handle.clone()).unwrap();
    (jobs, said)
}

#[track_caller]
fn said(said: &Said, expected: &[&str]) {
    assert_eq!(*said.lock().unwrap(), expected);
}

#[test]
fn run_removes_its_own_job() {
    let scene = Scene::new();
    let site = scene.site("a");
    let (jobs, calls) =
        calling(&site, |handle| async move { format!("{:?}", handle.remove("self").await) });

    scene.advance(10 * SECOND + 500 * MS);
    said(&calls, &["Ok(())"]);
    scene.advance(SECOND);

    said(&calls, &["Ok(())", "after it"]);
    assert_eq!(jobs.handle.jobs().len(), 1, "it is removed after its run");
    scene.advance(30 * SECOND);
    said(&calls, &["Ok(())", "after it"]);
    jobs.handle.add(site.job("self", Schedule::every(SECOND), MS)).unwrap();
}

#[test]
fn run_awaits_its_own_job() {
    let scene = Scene::new();
    let site = scene.site("a");
    let first = Mutex::new(true);
    let (jobs, calls) = calling(&site, move |handle| {
        let is_first = std::mem::take(&mut *first.lock().unwrap());
        async move {
            if !is_first {
                return "triggered".into();
            }
            let own = handle.trigger_here("self").unwrap().await;
            let other = handle.trigger_here("other").unwrap().await;
            assert_eq!(own, Err(SkipReason::OwnRun));
            format!("{other:?}")
        }
    });

    scene.advance(10 * SECOND + 500 * MS);
    said(&calls, &[]);
    // The other job's runs take three seconds each, and the triggered one follows.
    scene.advance(9 * SECOND);

    said(&calls, &["Ok(Finished)", "after it", "triggered", "after it"]);
    assert_eq!(jobs.status("self").counts.finished, 2);
}

#[test]
fn run_shuts_its_scheduler_down() {
    let scene = Scene::new();
    let site = scene.site("a");
    let (jobs, calls) = calling(&site, |handle| async move {
        let report = handle.shutdown(5 * SECOND).await;
        format!("{:?} {:?}", report.still_running, report.stopped)
    });

    scene.advance(10 * SECOND + 500 * MS);
    said(&calls, &["[\"self\"] []"]);
    scene.advance(SECOND);
    said(&calls, &["[\"self\"] []", "after it"]);
    scene.advance(20 * SECOND);

    assert_eq!(scene.nodes.key_counts(), [0; 5]);
    let states: Vec<_> = jobs.handle.jobs().into_iter().map(|job| job.state).collect();
    assert!(states.iter().all(|state| matches!(state, JobState::Ended { .. })), "{states:?}");
    let mut again = scene.clock.spawn({
        let handle = jobs.handle.clone();
        async move { handle.shutdown(Duration::ZERO).await }
    });
    scene.advance(SECOND);
    assert!(again.take().unwrap().still_running.is_empty());
}

#[test]
fn run_shuts_its_manager_down() {
    let scene = Scene::new();
    let site = scene.site("a");
    let redlock = site.redlock.clone();
    let (_jobs, calls) = calling(&site, move |_| {
        let redlock = redlock.clone();
        async move {
            redlock.shutdown().await;
            "shut down".into()
        }
    });
    scene.advance(10 * SECOND + 500 * MS);
    said(&calls, &["shut down"]);
}
