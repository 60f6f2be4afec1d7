//! Calls from inside a run to what manages the run: each returns at once, and what it began is finished.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use tower_redlock::{
    Job, JobContext, Schedule, SchedulerHandle,
    scheduler::{JobState, SkipReason},
};

use crate::scheduler::fixture::{Fixture, Host, MS, RunningScheduler, SECOND};

type Call =
    Arc<dyn Fn(SchedulerHandle) -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

/// What the calls returned.
type Said = Arc<Mutex<Vec<String>>>;

/// A scheduler with the job `self`, each of whose runs makes a call and then takes a second; and a job that
/// runs beside it.
fn calling<F>(
    host: &Host,
    call: impl Fn(SchedulerHandle) -> F + Send + Sync + 'static,
) -> (RunningScheduler, Said)
where
    F: Future<Output = String> + Send + 'static,
{
    let call: Call = Arc::new(move |handle| Box::pin(call(handle)));
    let (handle, said) = (Arc::<OnceLock<SchedulerHandle>>::default(), Said::default());
    let (known, all, clock) = (Arc::clone(&handle), Arc::clone(&said), host.clock.clone());
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
    let jobs = host.start([own, host.job("other", every, 3 * SECOND)]);
    handle.set(jobs.handle.clone()).unwrap();
    (jobs, said)
}

#[track_caller]
fn said(said: &Said, expected: &[&str]) {
    assert_eq!(*said.lock().unwrap(), expected);
}

#[test]
fn run_removes_its_own_job() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (jobs, calls) =
        calling(&host, |handle| async move { format!("{:?}", handle.remove("self").await) });

    fixture.advance(10 * SECOND + 500 * MS);
    said(&calls, &["Ok(())"]);
    fixture.advance(SECOND);

    said(&calls, &["Ok(())", "after it"]);
    assert_eq!(jobs.handle.jobs().len(), 1, "it is removed after its run");
    fixture.advance(30 * SECOND);
    said(&calls, &["Ok(())", "after it"]);
    jobs.handle.add(host.job("self", Schedule::every(SECOND), MS)).unwrap();
}

#[test]
fn run_awaits_its_own_job() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let first = Mutex::new(true);
    let (jobs, calls) = calling(&host, move |handle| {
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
    fixture.advance(10 * SECOND + 500 * MS);
    said(&calls, &[]);
    // The other job's runs take three seconds each, and the triggered one follows.
    fixture.advance(9 * SECOND);
    said(&calls, &["Ok(Finished)", "after it", "triggered", "after it"]);
    assert_eq!(jobs.status("self").counts.finished, 2);
}

#[test]
fn run_shuts_its_scheduler_down() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (jobs, calls) = calling(&host, |handle| async move {
        let report = handle.shutdown(5 * SECOND).await;
        format!("{:?} {:?}", report.still_running, report.stopped)
    });

    fixture.advance(10 * SECOND + 500 * MS);
    said(&calls, &["[\"self\"] []"]);
    fixture.advance(SECOND);
    said(&calls, &["[\"self\"] []", "after it"]);
    fixture.advance(20 * SECOND);

    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
    let states: Vec<_> = jobs.handle.jobs().into_iter().map(|job| job.state).collect();
    assert!(states.iter().all(|state| matches!(state, JobState::Ended { .. })), "{states:?}");
    let mut again = fixture.clock.spawn({
        let handle = jobs.handle.clone();
        async move { handle.shutdown(Duration::ZERO).await }
    });
    fixture.advance(SECOND);
    assert!(again.take().unwrap().still_running.is_empty());
}

#[test]
fn run_shuts_its_manager_down() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let redlock = host.redlock.clone();
    let (_jobs, calls) = calling(&host, move |_| {
        let redlock = redlock.clone();
        async move {
            redlock.shutdown().await;
            "shut down".into()
        }
    });
    fixture.advance(10 * SECOND + 500 * MS);
    said(&calls, &["shut down"]);
}
