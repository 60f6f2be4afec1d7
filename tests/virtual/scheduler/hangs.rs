//! Work and runtimes that hang.

use std::{
    future::{Future, pending},
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tower_redlock::{
    Job, JobContext, Schedule, Scheduler,
    error::LossCause,
    lock::Spawner,
    scheduler::{Claim, Outcome},
    testing::ManualSpawner,
};

use crate::scheduler::{
    blocking::{blocking_job, wait_for},
    fixture::{Fixture, HOUR, Host, MS, RunningScheduler, SECOND, TTL, with_timeout},
};

const LIMIT: Duration = Duration::from_secs(8);
/// A period that is longer than any run.
const PERIOD: Duration = Duration::from_secs(600);

fn lost(jobs: &RunningScheduler) -> LossCause {
    let last = jobs.status("j").last.expect("the run has ended").outcome;
    let Outcome::Lost { cause } = last else { panic!("{last:?}") };
    cause
}

/// A job whose first poll lets time pass before it returns.
fn hanging(host: &Host, hangs_for: Duration) -> Job {
    let clock = host.clock.clone();
    Job::new("j", Schedule::every(HOUR), move |_: JobContext| {
        clock.advance(hangs_for);
        pending::<()>()
    })
}

#[test]
fn hung_poll_loses_the_lock() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let at_a = a.start([hanging(&a, 3 * LIMIT + TTL).stall_limit(LIMIT).claim(Claim::AtEnd)]);
    fixture.advance(HOUR.saturating_sub(SECOND));
    // The first replica to acquire the lock runs the job; b joins when a has begun.
    let job = b.job("j", Schedule::every(HOUR), SECOND).claim(Claim::AtEnd).start_within(HOUR);
    let clock = fixture.clock.clone();
    let late = clock.sleep(2 * SECOND);
    let (redlock, spawner) = (b.redlock.clone(), b.clock.spawner());
    let _b = clock.spawn(async move {
        late.await;
        Scheduler::new(redlock).job(job).spawner(spawner).start().unwrap()
    });
    fixture.advance(2 * SECOND);
    assert_eq!(lost(&at_a), LossCause::Stalled { limit: LIMIT });
    assert_eq!(fixture.log.hosts(), ["b"], "b took over during the poll");
}

#[test]
fn default_stall_limit_is_a_minute() {
    for (hangs_for, is_lost) in [(60, false), (75 + 10, true)] {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let jobs = host.start([hanging(&host, hangs_for * SECOND)]);
        fixture.advance(HOUR + MS);
        assert_eq!(jobs.status("j").counts.lost, u64::from(is_lost), "{hangs_for} s");
    }
}

/// A spawner that polls no task while it hangs, as a runtime whose only thread is busy.
#[derive(Debug)]
struct HangingSpawner {
    inner: ManualSpawner,
    is_hung: Arc<AtomicBool>,
}

impl Spawner for HangingSpawner {
    fn spawn(&self, mut task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let is_hung = Arc::clone(&self.is_hung);
        self.inner.spawn(Box::pin(std::future::poll_fn(move |cx| {
            if is_hung.load(Ordering::SeqCst) {
                return Poll::Pending;
            }
            task.as_mut().poll(cx)
        })));
    }

    /// Threads are not affected.
    fn spawn_blocking(
        &self,
        name: &str,
        task: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> io::Result<()> {
        self.inner.spawn_blocking(name, task)
    }
}

#[test]
fn hung_runtime_loses_the_lock() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let is_hung = Arc::new(AtomicBool::new(false));
    let spawner = HangingSpawner { inner: a.clock.spawner(), is_hung: Arc::clone(&is_hung) };
    // The work waits outside of a poll.
    let job = |host: &Host| {
        host.job("j", Schedule::every(HOUR), 600 * SECOND).claim(Claim::AtEnd).start_within(HOUR)
    };
    let _a = Scheduler::new(a.redlock.clone()).job(job(&a)).spawner(spawner).start().unwrap();
    fixture.advance(HOUR + SECOND);
    let _b = b.start([job(&b)]);
    is_hung.store(true, Ordering::SeqCst);
    fixture.advance(60 * SECOND);
    assert_eq!(fixture.log.hosts(), ["a"], "the runtime may recover");
    fixture.advance(15 * SECOND + TTL + TTL / 5);
    assert_eq!(fixture.log.hosts(), ["a", "b"]);
}

/// The work is over, and `min_hold` keeps its lock.
#[test]
fn runtime_hung_after_run_loses_lock() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let is_hung = Arc::new(AtomicBool::new(false));
    let spawner = HangingSpawner { inner: a.clock.spawner(), is_hung: Arc::clone(&is_hung) };
    let job = a.job("j", Schedule::every(PERIOD), SECOND).min_hold(5 * SECOND);
    let _a = Scheduler::new(a.redlock.clone()).job(job).spawner(spawner).start().unwrap();
    fixture.advance(PERIOD + 2 * SECOND);
    let _b = b.start([b.job("j", Schedule::every(PERIOD), SECOND)]);
    is_hung.store(true, Ordering::SeqCst);
    fixture.advance(2 * PERIOD);
    assert_eq!(fixture.log.hosts(), ["a", "b", "b"]);
}

/// The runtime that started a thread handles the thread's result.
#[test]
fn runtime_hung_behind_blocking_loses_lock() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let is_hung = Arc::new(AtomicBool::new(false));
    let spawner = HangingSpawner { inner: a.clock.spawner(), is_hung: Arc::clone(&is_hung) };
    let (log, clock) = (a.log.clone(), a.clock.clone());
    let job = Job::blocking("j", Schedule::every(PERIOD), move |cx: JobContext| {
        let ended = log.begin("a", &cx, &clock);
        is_hung.store(true, Ordering::SeqCst);
        ended.finished();
    });
    let _a = Scheduler::new(a.redlock.clone()).job(job).spawner(spawner).start().unwrap();
    fixture.advance(PERIOD + 2 * SECOND);
    let _b = b.start([b.job("j", Schedule::every(PERIOD), SECOND)]);
    fixture.advance(2 * PERIOD);
    assert_eq!(fixture.log.hosts(), ["a", "b", "b"]);
}

#[test]
fn idle_work_is_no_stall() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    // The interval of renewals is longer than the limit.
    let job = host.job("j", Schedule::every(HOUR), 600 * SECOND).stall_limit(2 * SECOND);
    let jobs = host.start([job.min_hold(900 * SECOND)]);
    fixture.advance(HOUR + 601 * SECOND);
    assert_eq!(jobs.status("j").counts.finished, 1);
    fixture.advance(200 * SECOND);
    assert_eq!(fixture.nodes.key_counts(), [1; 5], "the time after the run is no stall");
}

fn beating(host: &Host, beats: u32) -> Job {
    let clock = host.clock.clone();
    let job = Job::new("j", Schedule::every(HOUR), move |cx: JobContext| {
        let clock = clock.clone();
        async move {
            for _ in 0..beats {
                clock.sleep(LIMIT / 2).await;
                cx.heartbeat();
            }
            pending::<()>().await;
        }
    });
    job.heartbeat_within(LIMIT)
}

#[test]
fn work_without_heartbeats_loses_the_lock() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let jobs = host.start([beating(&host, 20)]);
    fixture.advance(HOUR + LIMIT * 10);
    assert!(jobs.status("j").running.is_some());
    fixture.advance(LIMIT * 5 / 4 + TTL);
    assert_eq!(lost(&jobs), LossCause::NoHeartbeat { limit: LIMIT });
}

#[test]
fn heartbeats_are_expected_during_attempts_only() {
    let (fixture, [host]) = Fixture::hosts(["a"]);
    let job = Job::new("j", Schedule::every(HOUR), |cx: JobContext| async move {
        if cx.attempt() == 1 { Err("no") } else { Ok(()) }
    });
    let job = job.retries(1).backoff(50 * SECOND).min_hold(150 * SECOND);
    let jobs = host.start([job.heartbeat_within(LIMIT)]);
    fixture.advance(HOUR + 60 * SECOND);
    assert_eq!(jobs.status("j").counts.finished, 1);
    fixture.advance(80 * SECOND);
    assert_eq!(fixture.nodes.key_counts(), [1; 5]);
}

#[test]
fn blocking_work_has_no_default_limit() {
    with_timeout(20 * SECOND, || {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let (job, work) = blocking_job("j");
        let mut jobs = host.start([job]);
        fixture.advance(SECOND);
        let cx = work.begun.recv().unwrap();
        fixture.advance(600 * SECOND);
        cx.ensure_valid().unwrap();
        work.end.send(()).unwrap();
        wait_for(&fixture, &mut jobs, "finished");
    });
}

#[test]
fn blocking_work_needs_its_heartbeats() {
    with_timeout(20 * SECOND, || {
        let (fixture, [host]) = Fixture::hosts(["a"]);
        let (job, work) = blocking_job("j");
        let mut jobs = host.start([job.heartbeat_within(LIMIT)]);
        fixture.advance(SECOND);
        let cx = work.begun.recv().unwrap();
        fixture.advance(LIMIT.saturating_sub(SECOND));
        cx.heartbeat();
        fixture.advance(LIMIT.saturating_sub(SECOND));
        cx.ensure_valid().unwrap();
        fixture.advance(LIMIT + TTL);
        let error = cx.ensure_valid().unwrap_err();
        assert!(error.to_string().contains("heartbeat"), "{error}");
        work.end.send(()).unwrap();
        wait_for(&fixture, &mut jobs, "finished");
    });
}
