//! A replica: a process that runs the job.

use std::{
    fmt,
    future::Future,
    path::{Path, PathBuf},
    pin::pin,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use tokio::signal::unix::{SignalKind, signal};
use tower_redlock::{Job, JobContext, Redlock, Schedule, Scheduler, scheduler::Claim};

use crate::fixture::{child, over};

use super::{
    clock::{WanderingClock, mix},
    journal::{Line, LineKind, Run, Writer, now},
};

/// The options of a replica.
#[derive(Clone)]
pub(super) struct ReplicaOptions {
    pub(super) replica: usize,
    pub(super) plan: Plan,
    pub(super) journal: PathBuf,
    pub(super) urls: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Short runs; each tick runs at most once.
    Short,
    /// A first attempt that never ends; the second attempt ends at once.
    Long,
}

pub(super) const TTL: Duration = Duration::from_millis(500);
pub(super) const LONG_TTL: Duration = Duration::from_secs(1);
pub(super) const PERIOD: Duration = Duration::from_millis(200);
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
const GRACE: Duration = Duration::from_secs(1);

/// The test that a replica's process runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica() {
    let Some(options) = child::orders() else { return };
    let options: ReplicaOptions = options.parse().unwrap();
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    let builder = Redlock::builder()
        .ttl(if options.plan == Plan::Short { TTL } else { LONG_TTL })
        .node_timeout(NODE_TIMEOUT)
        .owner(format!("replica {}", options.replica))
        .clock(WanderingClock { seed: options.replica as u64 });
    let redlock = over(builder, &options.urls).build().unwrap();
    redlock.ready().await.unwrap();
    let writer = Arc::new(Writer::open(&options.journal));
    let nothing = Run { token: 0, tick: 0, attempt: 0, replica: options.replica };
    let scheduler = Scheduler::new(redlock.clone()).job(job(&options, &writer)).start().unwrap();
    writer.write(Line::at(LineKind::Up, nothing, now()));
    terminate.recv().await;
    scheduler.shutdown(GRACE).await;
    redlock.shutdown().await;
}

fn job(options: &ReplicaOptions, writer: &Arc<Writer>) -> Job {
    let (replica, plan, writer) = (options.replica, options.plan, Arc::clone(writer));
    let work = move |cx: JobContext| {
        let writer = Arc::clone(&writer);
        async move {
            let run = Run {
                token: cx.fencing_token().get(),
                tick: cx.tick().as_millis(),
                attempt: cx.attempt(),
                replica,
            };
            let work = async {
                writer.write(Line::at(LineKind::Start, run, now()));
                // The duration of the work.
                tokio::time::sleep(plan.takes(run)).await;
                writer.write(Line::at(LineKind::End, run, now()));
            };
            polled(&writer, &cx, run, work).await;
        }
    };
    let job = Job::new("fleet", Schedule::every(PERIOD), work);
    if plan == Plan::Long { job.claim(Claim::AtEnd) } else { job }
}

/// Records every poll, and whether the lock was valid when it began.
///
/// The moment is read after the guard has admitted the poll. A freeze between the two looks like a
/// poll that begins too late; but a run is frozen while it waits, long before its next poll.
async fn polled(writer: &Writer, cx: &JobContext, run: Run, work: impl Future<Output = ()>) {
    let mut work = pin!(work);
    std::future::poll_fn(|task| {
        let from = now();
        let what = if cx.ensure_valid().is_ok() { LineKind::Poll } else { LineKind::LatePoll };
        let polled = work.as_mut().poll(task);
        writer.write(Line { what, run, from, to: now() });
        polled
    })
    .await;
}

impl Plan {
    fn takes(self, run: Run) -> Duration {
        match self {
            Self::Short => Duration::from_millis(20 + mix(run.token) % 41),
            Self::Long if run.attempt == 1 => Duration::from_secs(3600),
            Self::Long => Duration::ZERO,
        }
    }
}

impl ReplicaOptions {
    /// Starts the process, by the name of its test.
    pub(super) fn command(&self) -> Vec<String> {
        child::command(module_path!(), "replica", &self.to_string())
    }
}

impl fmt::Display for ReplicaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls = self.urls.join(" ");
        write!(f, "{} {:?} {} {urls}", self.replica, self.plan, self.journal.display())
    }
}

impl FromStr for ReplicaOptions {
    type Err = String;

    fn from_str(options: &str) -> Result<Self, String> {
        let strange = || format!("strange orders: {options:?}");
        let mut words = options.split(' ');
        let mut word = || words.next().ok_or_else(strange);
        let replica = word()?.parse().map_err(|_| strange())?;
        let plan = match word()? {
            "Short" => Plan::Short,
            "Long" => Plan::Long,
            _ => return Err(strange()),
        };
        let journal = Path::new(word()?).to_owned();
        Ok(Self { replica, plan, journal, urls: words.map(ToOwned::to_owned).collect() })
    }
}
