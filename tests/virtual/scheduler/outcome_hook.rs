//! The callback for how runs and ticks ended.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{
    Job, Schedule, Scheduler,
    scheduler::{JobOutcome, Missed},
};

use crate::scheduler::{
    fixture::{Fixture, Host, MINUTE, MS, RunningScheduler, SECOND},
    log_lines::Lines,
};

type Told = Arc<Mutex<Vec<JobOutcome>>>;

fn start(host: &Host, jobs: impl IntoIterator<Item = Job>) -> (RunningScheduler, Told) {
    let told = Told::default();
    let telling = Arc::clone(&told);
    let scheduler = Scheduler::new(host.redlock.clone())
        .jobs(jobs)
        .on_outcome(move |outcome| telling.lock().unwrap().push(outcome));
    (host.run(scheduler), told)
}

fn names(told: &Told) -> Vec<(String, &'static str, bool)> {
    let told = std::mem::take(&mut *told.lock().unwrap());
    let name = |it: &JobOutcome| (it.job.to_string(), it.kind.name(), it.is_failure());
    told.iter().map(name).collect()
}

fn panic_aloud() {
    panic!("oh")
}

#[test]
fn ends_of_runs_are_told() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let every = |offset: u32| Schedule::every(10 * SECOND).offset(offset * SECOND);
    let jobs = [
        Job::new("bad", every(1), |_| async { Err::<(), _>("no disk") }),
        Job::new("good", every(2), |_| async {}),
        Job::new("panics", every(3), |_| async { panic_aloud() }),
    ];
    let (_jobs, told) = start(&host, jobs);

    fixture.advance(10 * SECOND);

    let first = told.lock().unwrap()[0].to_string();
    assert!(first.starts_with("bad, tick ") && first.ends_with(": no disk"), "{first}");
    let expected =
        [("bad", "failed", true), ("good", "finished", false), ("panics", "panicked", true)];
    assert_eq!(names(&told), expected.map(|(job, kind, fails)| (job.into(), kind, fails)));
}

#[test]
fn missed_and_late_are_told() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let other = fixture.host("other");
    let job = |host: &Host| {
        host.job("j", Schedule::every(MINUTE), MS).start_within(50 * SECOND).missed(Missed::Skip)
    };
    let (_jobs, told) = start(&host, [job(&host)]);
    fixture.advance(30 * SECOND);
    let held = |fixture: &Fixture, time: Duration| {
        let name = tower_redlock::Resource::of_job("j").unwrap();
        let redlock = other.redlock.clone();
        let lock = fixture.done(async move { redlock.lock(name).await });
        fixture.advance(time);
        drop(lock.unwrap());
    };
    held(&fixture, 60 * SECOND);
    fixture.advance(10 * SECOND);
    let late = told.lock().unwrap()[0].clone();
    assert_eq!(late.kind.name(), "finished");
    assert!(late.lateness >= 30 * SECOND, "{late}");
    assert!(late.to_string().contains(" late)"), "{late}");
    assert_eq!(names(&told).len(), 1);
    held(&fixture, 130 * SECOND);
    fixture.advance(20 * SECOND);
    let missed = names(&told);
    assert!(missed.contains(&("j".into(), "missed", true)), "{missed:?}");
}

#[test]
fn ticks_in_pauses_are_no_failure() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (jobs, told) = start(&host, [host.job("j", Schedule::every(10 * SECOND), MS)]);
    fixture.done(jobs.handle.pause("j").by("ann")).unwrap();
    fixture.advance(MINUTE);
    fixture.done(jobs.handle.resume("j")).unwrap();
    fixture.advance(15 * SECOND);

    let told = std::mem::take(&mut *told.lock().unwrap());
    let missed = told.iter().find(|outcome| outcome.kind.name() == "missed").unwrap();
    assert!(missed.to_string().contains("paused by ann"), "{missed}");
    assert!(told.iter().all(|outcome| !outcome.is_failure()), "{told:?}");
}

#[test]
fn callback_that_fails_is_logged() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let told = Arc::new(Mutex::new(0));
        let count = Arc::clone(&told);
        let scheduler = Scheduler::new(host.redlock.clone())
            .jobs([host.job("j", Schedule::every(10 * SECOND), MS)])
            .on_outcome(move |_| {
                let number = {
                    let mut count = count.lock().unwrap();
                    *count += 1;
                    *count
                };
                async move {
                    match number {
                        1 => panic!("on purpose"),
                        2 => std::future::pending().await,
                        _ => {}
                    }
                }
            });
        let _jobs = host.run(scheduler);
        fixture.advance(25 * SECOND);
        assert_eq!(lines.count("WARN", &["on_outcome failed", "on purpose"]), 1);
        fixture.advance(60 * SECOND);
        assert_eq!(lines.count("WARN", &["on_outcome failed", "longer than 30s"]), 1);
        assert_eq!(*told.lock().unwrap(), 8, "one after the other, none is lost");
    });
}

/// 1,500 outcomes while the callback takes its time for the first one, of which the 10th is a failure.
#[test]
fn slow_callback_loses_successes_first() {
    Lines::during(|lines| {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let told = Told::default();
        let (telling, clock) = (Arc::clone(&told), fixture.clock.clone());
        let mut runs = 0;
        let job = Job::new("j", Schedule::every(MS * 10), move |_| {
            runs += 1;
            let fails = runs == 10;
            async move { if fails { Err("no disk") } else { Ok(()) } }
        });
        let scheduler = Scheduler::new(host.redlock.clone()).jobs([job]).on_outcome(move |it| {
            let (telling, clock) = (Arc::clone(&telling), clock.clone());
            async move {
                let is_first = telling.lock().unwrap().is_empty();
                telling.lock().unwrap().push(it);
                if is_first {
                    clock.sleep(15 * SECOND).await;
                }
            }
        });
        let jobs = host.run(scheduler);
        fixture.advance(14 * SECOND);
        let ended = jobs.status("j").counts.finished + 1;
        assert!(ended > 1_300, "{ended}");
        jobs.handle.pause_here("j").unwrap();
        fixture.advance(2 * SECOND);
        let failed = told.lock().unwrap().iter().filter(|it| it.is_failure()).count();
        assert_eq!(failed, 1, "the failure is reported");
        assert_eq!(told.lock().unwrap().len(), 1_025);
        let dropped = format!("dropped={}", ended - 1_025);
        assert_eq!(lines.count("WARN", &["too slow", &dropped, "failures=0"]), 1);
    });
}

#[test]
fn shutdown_waits_for_the_callback() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let told = Told::default();
    let (telling, clock) = (Arc::clone(&told), fixture.clock.clone());
    let scheduler = Scheduler::new(host.redlock.clone())
        .jobs([host.job("j", Schedule::every(10 * SECOND), MINUTE)])
        .on_outcome(move |outcome| {
            let (telling, clock) = (Arc::clone(&telling), clock.clone());
            async move {
                clock.sleep(SECOND).await;
                telling.lock().unwrap().push(outcome);
            }
        });
    let jobs = host.run(scheduler);
    fixture.advance(11 * SECOND);
    let mut shutdown = fixture.shutdown(&jobs, 2 * SECOND);
    fixture.advance(2_500 * MS);
    assert!(shutdown.take().is_none());
    fixture.advance(SECOND);
    assert!(shutdown.take().is_some());
    assert_eq!(names(&told), [("j".into(), "stopped", false)]);
}

#[test]
fn callback_may_shut_down() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let (tell, told) = std::sync::mpsc::channel();
    let scheduler = Scheduler::new(host.redlock.clone());
    let handle = Arc::new(Mutex::new(None::<tower_redlock::SchedulerHandle>));
    let shared = Arc::clone(&handle);
    let job = host.job("j", Schedule::every(10 * SECOND), MS);
    let jobs = host.run(scheduler.job(job).on_outcome(move |_| {
        let (handle, tell) = (shared.lock().unwrap().clone(), tell.clone());
        async move {
            handle.unwrap().shutdown(1_000 * SECOND).await;
            tell.send(()).unwrap();
        }
    }));
    *handle.lock().unwrap() = Some(jobs.handle.clone());

    fixture.advance(11 * SECOND);

    assert_eq!(told.try_iter().count(), 1, "it returns at once");
    assert!(format!("{:?}", jobs.status("j").state).contains("shut down"));
}
