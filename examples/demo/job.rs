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
    FencingToken, Job, JobContext, LockContext, Schedule, Scheduler,
    scheduler::{SchedulerHandle, StartError},
};

use crate::{Demo, cluster::Replica, overlap::Room};

const PERIOD: Duration = Duration::from_secs(1);
/// How long the job takes.
const WORK: Duration = Duration::from_millis(250);
/// How long a run may go on when the demo stops.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// What `--check` waits for.
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
    let _visit = demo.report.room.enter();
    let going = demo.report.begin(tick);
    sleep(WORK).await;
    // Should the lock have been lost meanwhile, this is not reached: the work was dropped above.
    going.mark(Run { tick, replica, token: cx.fencing_token() })
}

/// The job's own store, which knows what was done. Like the ledger it stands for a database.
#[derive(Default)]
pub(crate) struct Report {
    book: Mutex<Book>,
    room: Room,
    marked: Notify,
}

#[derive(Clone, Default)]
pub(crate) struct Book {
    /// The newest runs, newest first.
    pub(crate) runs: VecDeque<Run>,
    pub(crate) ran: u64,
    /// Ticks that nobody began: too few nodes, or a machine that stood still.
    pub(crate) missed: u64,
    /// Ticks begun a second time.
    pub(crate) repeated: u64,
    /// Runs that did not come to their end.
    pub(crate) failed: u64,
    begun: Option<u64>,
}

#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) tick: u64,
    pub(crate) replica: &'static str,
    pub(crate) token: FencingToken,
}

/// A run that is going.
struct Going<'a> {
    report: &'a Report,
    is_done: bool,
}

#[derive(Debug)]
struct StaleToken;

impl fmt::Display for StaleToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a holder with a newer token has written already")
    }
}

impl Error for StaleToken {}

impl Report {
    pub(crate) fn book(&self) -> Book {
        self.lock().clone()
    }

    pub(crate) fn overlaps(&self) -> u64 {
        self.room.overlaps()
    }

    /// Waits until the job ran so many times.
    pub(crate) async fn wait_for(&self, runs: u64) {
        while self.lock().ran < runs {
            self.marked.notified().await;
        }
    }

    fn begin(&self, tick: u64) -> Going<'_> {
        let mut book = self.lock();
        match book.begun.replace(tick) {
            Some(last) if last == tick => book.repeated += 1,
            Some(last) => book.missed += tick.saturating_sub(last + 1),
            None => {}
        }
        Going { report: self, is_done: false }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Going<'_> {
    fn mark(mut self, run: Run) -> Result<(), StaleToken> {
        let mut book = self.report.lock();
        if book.runs.front().is_some_and(|last| run.token <= last.token) {
            return Err(StaleToken);
        }
        book.ran += 1;
        book.runs.push_front(run);
        book.runs.truncate(4);
        self.report.marked.notify_one();
        self.is_done = true;
        Ok(())
    }
}

/// So that a run which is dropped half-way counts as well.
impl Drop for Going<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.report.lock().failed += 1;
        }
    }
}
