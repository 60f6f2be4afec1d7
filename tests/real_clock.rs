//! The hard stop by the real clock: idle work is dropped before the end of its validity.
//!
//! Only what happened while the machine was quiet is judged: while, for some milliseconds before,
//! every thread of this process got a processor as soon as it wanted one, and a control that was
//! woken in the same way at about the same moment was punctual. A host that takes a processor from a
//! virtual machine for less than its statistics show, 10 ms, is not seen by either: so it is repeated
//! where a sample is late.

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

/// Samples that are judged in a round.
const WANTED: usize = 50;
/// Rounds, of which one without a late sample is enough.
const ROUNDS: usize = 20;
/// Samples that are taken for a round at the most: in some minutes.
const TRIES: u64 = 5_000;
/// How long before the end it has to be quiet.
const WATCHED: Duration = Duration::from_millis(10);
/// Longest that the threads of the process may have waited for a processor, all together.
const QUIET: Duration = Duration::from_micros(400);
/// Longest that the control may have been late, beyond what tokio's timers are.
const PUNCTUAL: Duration = Duration::from_micros(500);
/// What tokio's timers round to.
const GRANULARITY: Duration = Duration::from_millis(2);

fn now() -> Timestamp {
    SystemClock::new().now()
}

/// Notes when it is dropped.
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

/// How long the threads of this process have waited for a processor, all together, and processors for
/// their host; zero where the system does not tell.
fn waited() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum()) + stolen()
}

/// How long the host has run something else on processors that this machine wanted.
fn stolen() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    // "cpu", and its times: in user code, nice, system, idle, waiting, two of interrupts, stolen.
    let stolen = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(stolen.unwrap_or(0) * 10)
}

/// Two threads as those that a hard stop goes through: one waits for a timer, and wakes the other.
struct Control {
    ends: mpsc::Sender<Timestamp>,
    /// How late the second was woken, and how long threads had waited before it began to count.
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
                    tokio::time::sleep(at.saturating_duration_since(now())).await
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

/// When work was dropped, from the end of its validity on; negative before it.
struct Sample {
    nanos: i64,
    is_judged: bool,
}

fn sample(runtime: &Runtime, redlock: &Redlock, control: &Control, nth: u64) -> Sample {
    // Of many lengths: the end is anywhere between two ticks of the timers.
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
        // It stood still for all of the validity.
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

/// Held by the one that measures.
static ALONE: Mutex<()> = Mutex::new(());

/// Whether no sample was late that was judged.
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
fn idle_work_is_dropped_before_the_end_by_one_thread() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    assert!((0..ROUNDS).any(|_| is_in_time(&runtime)));
}

#[test]
fn idle_work_is_dropped_before_the_end_by_two_threads() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    assert!((0..ROUNDS).any(|_| is_in_time(&runtime)));
}
