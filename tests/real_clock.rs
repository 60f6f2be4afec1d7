//! The hard stop by the real clock: idle work is dropped before the end of its validity.
//!
//! Only samples on a quiet machine count: for some milliseconds before, every thread of this process
//! got a processor at once, and a control that was woken at about the same time was punctual. Neither
//! detects a host that takes a processor away for less than the 10 ms that its statistics show, so a
//! round with a late sample is repeated.

use std::{
    fmt, fs,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tokio::runtime::{Builder, Runtime};
use tower_redlock::{
    LockContext, LockError, Redlock,
    time::{Clock as _, SystemClock, Timestamp},
};

/// Number of samples that count in a round.
const WANTED: usize = 50;
/// Maximum number of rounds. One without a late sample is enough.
const ROUNDS: usize = 20;
/// Maximum number of samples of a round: some minutes.
const TRIES: u64 = 5_000;
/// Time before the end during which the machine must be quiet.
const WATCHED: Duration = Duration::from_millis(10);
/// Maximum time for which the threads of the process may have waited for a processor, in total.
const QUIET: Duration = Duration::from_micros(400);
/// Maximum lateness of the control, in addition to the lateness of tokio's timers.
const PUNCTUAL: Duration = Duration::from_micros(500);
/// Granularity of tokio's timers.
const GRANULARITY: Duration = Duration::from_millis(2);

fn now() -> Timestamp {
    SystemClock::new().now()
}

/// Records when it is dropped.
struct Noting(Arc<AtomicU64>);

impl Drop for Noting {
    fn drop(&mut self) {
        self.0.store(now().as_nanos(), Ordering::SeqCst);
    }
}

/// A moment at the end of the validity, or nanoseconds after it.
fn end_of(context: &LockContext) -> Timestamp {
    let ends = (0..20).map(|_| {
        let remaining = context.remaining();
        now() + remaining
    });
    ends.min().expect("there are some")
}

/// Time for which the threads of this process waited for a processor, and processors for their host, in
/// total; zero if the system does not report it.
fn waited() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum()) + stolen()
}

/// Time for which the host ran other work on processors that this machine wanted.
fn stolen() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    // "cpu", and its times: in user code, nice, system, idle, waiting, two of interrupts, stolen.
    let stolen = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(stolen.unwrap_or(0) * 10)
}

/// Two threads as in a hard stop: one waits for a timer, and wakes the other.
struct Control {
    ends: mpsc::Sender<Timestamp>,
    /// Lateness of the second thread, and the time that threads had waited before.
    results: mpsc::Receiver<(Duration, Duration)>,
}

impl Control {
    fn start() -> Self {
        let (ends, wanted) = mpsc::channel::<Timestamp>();
        let (hop, hops) = mpsc::channel();
        let (result, results) = mpsc::channel();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
            let sleep_until = |at: Timestamp| {
                runtime.block_on(async {
                    tokio::time::sleep(at.saturating_duration_since(now())).await;
                });
            };
            for end in wanted {
                sleep_until(end.saturating_sub(WATCHED));
                let before = waited();
                let aim = end.saturating_sub(GRANULARITY);
                sleep_until(aim);
                let _ = hop.send((aim, before));
            }
        });
        thread::spawn(move || {
            for (aim, before) in hops {
                let _ = result.send((now().saturating_duration_since(aim), before));
            }
        });
        Self { ends, results }
    }
}

/// Returns when work was dropped, relative to the end of its validity; negative before it.
struct Sample {
    nanos: i64,
    is_judged: bool,
}

fn sample(runtime: &Runtime, redlock: &Redlock, control: &Control, nth: u64) -> Sample {
    // Various lengths, so that the end is anywhere between two ticks of the timers.
    let ttl = Duration::from_micros(30_000 + nth * 137 % 5_000);
    let (dropped, end) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let (noting, ends) = (Noting(Arc::clone(&dropped)), Arc::clone(&end));
    let to_control = control.ends.clone();
    let run = redlock.lock("x").ttl(ttl).auto_extend(false).run(|context| async move {
        let _noting = noting;
        let end = end_of(&context);
        ends.store(end.as_nanos(), Ordering::SeqCst);
        let _ = to_control.send(end);
        std::future::pending::<()>().await;
    });
    let ended = runtime.block_on(runtime.spawn(run)).expect("it does not panic");
    match ended {
        Err(LockError::Lost { .. }) => {}
        // The process was paused for all of the validity.
        Err(LockError::TooSlow { .. }) => return Sample { nanos: 0, is_judged: false },
        ended => panic!("{ended:?}"),
    }
    let (late, before) = control.results.recv().expect("it was told of the end");
    let is_judged = waited().saturating_sub(before) <= QUIET && late <= GRANULARITY + PUNCTUAL;
    let moment = |at: &AtomicU64| i64::try_from(at.load(Ordering::SeqCst)).expect("some centuries");
    Sample { nanos: moment(&dropped) - moment(&end), is_judged }
}

struct Distribution(Vec<i64>);

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(nanos) = self;
        write!(f, "{} samples, from the end on:", nanos.len())?;
        let last = nanos.len().saturating_sub(1);
        for percent in [0, 10, 50, 90, 99, 100] {
            if let Some(nanos) = nanos.get(last * percent / 100) {
                #[expect(clippy::cast_precision_loss, reason = "it is some milliseconds")]
                let ms = *nanos as f64 / 1e6;
                write!(f, " {percent} % {ms:.3} ms")?;
            }
        }
        Ok(())
    }
}

/// Held while measuring.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether no sample that counts was late.
fn is_in_time(runtime: &Runtime) -> bool {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let redlock = Redlock::embedded();
    let control = Control::start();
    let (mut judged, mut others) = (Vec::new(), Vec::new());
    for nth in 0..TRIES {
        let sample = sample(runtime, &redlock, &control, nth);
        let samples = if sample.is_judged { &mut judged } else { &mut others };
        samples.push(sample.nanos);
        if judged.len() == WANTED {
            break;
        }
    }
    judged.sort_unstable();
    others.sort_unstable();
    let (judged, others) = (Distribution(judged), Distribution(others));
    println!("quiet: {judged}\nnot quiet: {others}");
    assert_eq!(judged.0.len(), WANTED, "the machine is never quiet");
    judged.0.iter().all(|nanos| *nanos < 0)
}

#[test]
fn one_thread_drops_idle_work() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    assert!((0..ROUNDS).any(|_| is_in_time(&runtime)));
}

#[test]
fn two_threads_drop_idle_work() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    assert!((0..ROUNDS).any(|_| is_in_time(&runtime)));
}
