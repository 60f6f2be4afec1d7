//! A periodic job: each replica has a scheduler, and each tick runs on one of them.

use std::{
    collections::VecDeque,
    error::Error,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::sleep};
use tower_redlock::{
    FencingToken, Job, JobContext, LockContext, Schedule, Scheduler, SchedulerHandle,
    scheduler::StartError,
};

use crate::{Demo, cluster::Replica, ledger::OverlapCounter};

const PERIOD: Duration = Duration::from_secs(1);
/// Duration of the job.
const WORK: Duration = Duration::from_millis(250);
/// Time for which a run may continue when the demo stops.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// The number of runs that `--check` waits for.
pub(crate) const TICKS_TO_CHECK: u64 = 4;

/// Starts the scheduler of one replica.
pub(crate) fn start(demo: &Arc<Demo>, replica: &Replica) -> Result<SchedulerHandle, StartError> {
    let (demo, name) = (Arc::clone(demo), replica.name);
    let report = move |cx| make_report(Arc::clone(&demo), name, cx);
    Scheduler::new(replica.redlock.clone())
        .job(Job::new("nightly-report", Schedule::every(PERIOD), report))
        .start()
}

async fn make_report(
    demo: Arc<Demo>,
    replica: &'static str,
    cx: JobContext,
) -> Result<(), StaleToken> {
    let tick = cx.tick().as_millis() / 1_000;
    let _entry = demo.board.enter(replica, LockContext::clone(&cx));
    let _visit = demo.report.users.enter();
    let running = demo.report.begin(tick);
    sleep(WORK).await;
    // Not reached if the lock was lost: the work is dropped above.
    running.finish(Run { tick, replica, token: cx.fencing_token() })
}

/// The job's own store. Like the ledger, it represents a database.
#[derive(Default)]
pub(crate) struct Report {
    history: Mutex<History>,
    users: OverlapCounter,
    finished: Notify,
}

#[derive(Clone, Default)]
pub(crate) struct History {
    /// The newest runs, newest first.
    pub(crate) runs: VecDeque<Run>,
    pub(crate) ran: u64,
    /// Ticks without a run: too few nodes voted, or the machine was paused.
    pub(crate) missed: u64,
    /// Ticks with a second run.
    pub(crate) repeated: u64,
    /// Runs that were dropped or rejected.
    pub(crate) failed: u64,
    begun: Option<u64>,
}

#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) tick: u64,
    pub(crate) replica: &'static str,
    pub(crate) token: FencingToken,
}

/// A run in progress.
struct Running<'a> {
    report: &'a Report,
    is_done: bool,
}

#[derive(Debug)]
struct StaleToken;

impl fmt::Display for StaleToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a holder with a newer token has already written")
    }
}

impl Error for StaleToken {}

impl Report {
    pub(crate) fn history(&self) -> History {
        self.lock().clone()
    }

    pub(crate) fn overlaps(&self) -> u64 {
        self.users.overlaps()
    }

    /// Waits until the job has run this number of times.
    pub(crate) async fn wait_for(&self, runs: u64) {
        while self.lock().ran < runs {
            self.finished.notified().await;
        }
    }

    fn begin(&self, tick: u64) -> Running<'_> {
        let mut history = self.lock();
        match history.begun.replace(tick) {
            Some(last) if last == tick => history.repeated += 1,
            Some(last) => history.missed += tick.saturating_sub(last + 1),
            None => {}
        }
        Running { report: self, is_done: false }
    }

    fn lock(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running<'_> {
    fn finish(mut self, run: Run) -> Result<(), StaleToken> {
        let mut history = self.report.lock();
        if history.runs.front().is_some_and(|last| run.token <= last.token) {
            return Err(StaleToken);
        }
        history.ran += 1;
        history.runs.push_front(run);
        history.runs.truncate(4);
        self.report.finished.notify_one();
        self.is_done = true;
        Ok(())
    }
}

/// Counts a run that is dropped before its end.
impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.report.lock().failed += 1;
        }
    }
}
