//! Work that sleeps with tokio's timers, and work that blocks.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{
    Job, JobContext, Schedule, Scheduler, SchedulerHandle,
    scheduler::{JobEvent, JobEventKind, Overlap},
    testing::{ManualClock, Nodes},
    time::{Clock, Timestamp},
};

use crate::durations::{MS, SECOND};

/// Number of runs in which a race would show.
const RUNS: usize = 100;

type Seen = Arc<Mutex<Vec<Duration>>>;

struct Fixture {
    clock: ManualClock,
    start: Timestamp,
    seen: Seen,
    jobs: SchedulerHandle,
    events: tokio::sync::broadcast::Receiver<JobEvent>,
}

impl Fixture {
    /// A scheduler of one job, without a spawner of its own.
    fn new(job: impl FnOnce(ManualClock, Seen) -> Job) -> Self {
        let (clock, seen) = (ManualClock::new(), Seen::default());
        let redlock = Nodes::new(3, &clock).replica("a").redlock();
        let job = job(clock.clone(), Arc::clone(&seen));
        let jobs = Scheduler::new(redlock).job(job).start().unwrap();
        Self { start: clock.now(), events: jobs.events(), clock, seen, jobs }
    }

    /// The times at which the work recorded an event, counted from the beginning.
    fn seen(&self) -> Vec<Duration> {
        self.seen.lock().unwrap().clone()
    }

    fn started(&self) -> u64 {
        self.jobs.jobs()[0].counts.started
    }

    fn finished(&self) -> u64 {
        self.jobs.jobs()[0].counts.finished
    }
}

fn note(clock: &ManualClock, start: Timestamp, seen: &Seen) {
    seen.lock().unwrap().push(clock.now().saturating_duration_since(start));
}

/// Each tick is followed by a sleep of tokio.
fn sleeps(takes: Duration) -> impl FnOnce(ManualClock, Seen) -> Job {
    move |clock, seen| {
        let start = clock.now();
        Job::new("j", Schedule::every(10 * SECOND), move |_| {
            let (clock, seen) = (clock.clone(), Arc::clone(&seen));
            async move {
                note(&clock, start, &seen);
                tokio::time::sleep(takes).await;
                note(&clock, start, &seen);
            }
        })
    }
}

fn on_paused_runtime(test: impl AsyncFn()) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(test());
}

#[test]
fn sleeping_work_is_deterministic() {
    for _ in 0..RUNS {
        on_paused_runtime(async || {
            let fixture = Fixture::new(sleeps(3 * SECOND));
            fixture.clock.advance_with_tokio(25 * SECOND).await;
            assert_eq!(fixture.seen(), [10, 13, 20, 23].map(|second| second * SECOND));
            assert_eq!(fixture.finished(), 2);
            assert_eq!(fixture.clock.now(), fixture.start + 25 * SECOND);
        });
    }
}

#[test]
fn locks_are_renewed_while_work_sleeps() {
    on_paused_runtime(async || {
        let fixture =
            Fixture::new(|clock, seen| sleeps(3600 * SECOND)(clock, seen).max_run(30 * SECOND));
        fixture.clock.advance_with_tokio(39 * SECOND).await;
        assert_eq!(fixture.jobs.jobs()[0].counts.timed_out, 0);
        fixture.clock.advance_with_tokio(2 * SECOND).await;
        assert_eq!(fixture.jobs.jobs()[0].counts.timed_out, 1);
        assert_eq!(fixture.seen(), [10 * SECOND]);
    });
}

#[test]
fn both_clocks_move_together() {
    on_paused_runtime(async || {
        let clock = ManualClock::new();
        let began = tokio::time::Instant::now();
        let order = Arc::new(Mutex::new(Vec::new()));
        let (of_clock, seen) = (clock.clone(), Arc::clone(&order));
        let _task = clock.spawn(async move {
            for turn in 0..3 {
                of_clock.sleep(2 * SECOND).await;
                seen.lock().unwrap().push((turn, "clock", began.elapsed()));
                tokio::time::sleep(500 * MS).await;
                seen.lock().unwrap().push((turn, "tokio", began.elapsed()));
            }
        });
        // A task of the runtime waits for one of the clock.
        let slept = clock.sleep(4 * SECOND);
        let task = clock.spawn(slept);
        let seen = Arc::clone(&order);
        let waits = tokio::spawn(async move {
            task.await;
            seen.lock().unwrap().push((9, "runtime", began.elapsed()));
        });
        clock.advance_with_tokio(6 * SECOND).await;
        waits.await.unwrap();
        let expected = [
            (0, "clock", 2_000),
            (0, "tokio", 2_500),
            (9, "runtime", 4_000),
            (1, "clock", 4_500),
            (1, "tokio", 5_000),
        ];
        let expected = expected.map(|(turn, of, ms)| (turn, of, ms * MS));
        assert_eq!(*order.lock().unwrap(), expected);
        assert_eq!(began.elapsed(), 6 * SECOND);
    });
}

#[test]
fn far_future_does_not_overflow() {
    on_paused_runtime(async || {
        let clock = ManualClock::new();
        let start = clock.now();
        let forever = clock.advance_with_tokio(Duration::MAX);
        assert!(tokio::time::timeout(60 * SECOND, forever).await.is_err());
        let passed = clock.now().saturating_duration_since(start);
        assert!(passed <= 60 * SECOND, "{passed:?}");
    });
}

#[test]
fn blocking_work_stops_clock() {
    for _ in 0..RUNS {
        let mut fixture = Fixture::new(|clock, seen| {
            let start = clock.now();
            Job::blocking("j", Schedule::every(10 * SECOND), move |_: JobContext| {
                std::thread::yield_now();
                note(&clock, start, &seen);
            })
        });
        fixture.clock.advance(35 * SECOND);
        assert_eq!((fixture.started(), fixture.finished()), (3, 3));
        assert_eq!(fixture.seen(), [10, 20, 30].map(|second| second * SECOND));
        let took = std::iter::from_fn(|| fixture.events.try_recv().ok()).filter_map(|event| {
            match event.kind {
                JobEventKind::Finished { took } => Some(took),
                _ => None,
            }
        });
        assert_eq!(took.collect::<Vec<_>>(), [Duration::ZERO; 3]);
    }
}

#[test]
fn blocking_work_may_move_clock() {
    let fixture = Fixture::new(|clock, seen| {
        let start = clock.now();
        let mut is_first = true;
        let job = Job::blocking("j", Schedule::every(10 * SECOND), move |cx: JobContext| {
            if !std::mem::take(&mut is_first) {
                return;
            }
            clock.advance(4 * SECOND);
            assert!(cx.ensure_valid().is_ok());
            clock.advance(8 * SECOND);
            note(&clock, start, &seen);
        });
        job.overlap(Overlap::Stop).stop_grace(SECOND)
    });
    fixture.clock.advance(10 * SECOND);
    assert_eq!(fixture.seen(), [22 * SECOND], "it can't be dropped");
    let status = &fixture.jobs.jobs()[0];
    assert_eq!((status.counts.started, status.counts.finished), (2, 2), "{status:?}");
}
