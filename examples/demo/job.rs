//! A periodic job: every replica wants to run it, one does.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Notify, time::sleep};
use tower_redlock::{FencingToken, LockContext, LockError, guard};

use crate::{Demo, cluster::Replica, overlap::Room, stop::Stop};

const PERIOD: Duration = Duration::from_secs(1);
/// How long the job takes, and for how long the other replicas wait for it to end.
const WORK: Duration = Duration::from_millis(250);
const WAIT: Duration = Duration::from_millis(600);
/// What `--check` waits for.
pub(crate) const TICKS_TO_CHECK: u64 = 4;

/// One replica's loop.
pub(crate) async fn run(demo: Arc<Demo>, replica: Replica, mut stop: Stop) {
    let mut tick = 0;
    loop {
        tick = next_tick(tick);
        tokio::select! {
            () = until(tick) => {}
            () = stop.requested() => return,
        }
        let report = |lock| make_report(&demo, replica.name, tick, lock);
        let made = replica.redlock.lock("nightly-report").wait(WAIT).try_run(report).await;
        if made.is_err_and(|error| !is_elsewhere(&error)) {
            demo.report.lock().failed += 1;
        }
    }
}

/// Whether the lock was with another replica all the time, so that the tick is in good hands.
fn is_elsewhere(error: &guard::Error<StaleToken>) -> bool {
    match error {
        guard::Error::Lock(LockError::WaitTimedOut { last, .. }) => {
            matches!(**last, LockError::Held { .. })
        }
        _ => false,
    }
}

async fn make_report(
    demo: &Demo,
    replica: &'static str,
    tick: u64,
    lock: LockContext,
) -> Result<(), StaleToken> {
    // The lock keeps replicas from running at once; the mark keeps them from running in turn.
    if demo.report.is_done(tick) {
        return Ok(());
    }
    let token = lock.fencing_token();
    let _entry = demo.board.enter(replica, lock);
    let _visit = demo.report.room.enter();
    demo.report.begin(tick);
    sleep(WORK).await;
    demo.report.mark(Run { tick, replica, token })
}

/// A tick's number is the same for all replicas: whole periods since 1970.
fn next_tick(last: u64) -> u64 {
    let now = since_1970().as_millis() / PERIOD.as_millis();
    u64::try_from(now).expect("the clock is set to a sensible year").max(last) + 1
}

async fn until(tick: u64) {
    let at = Duration::from_secs(tick * PERIOD.as_secs());
    sleep(at.saturating_sub(since_1970())).await;
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
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
    /// Ticks begun a second time: that may only be where the first try failed.
    pub(crate) repeated: u64,
    pub(crate) failed: u64,
    begun: Option<u64>,
}

#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) tick: u64,
    pub(crate) replica: &'static str,
    pub(crate) token: FencingToken,
}

/// A holder with a newer token has written already.
struct StaleToken;

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

    fn is_done(&self, tick: u64) -> bool {
        self.lock().runs.front().is_some_and(|last| tick <= last.tick)
    }

    fn begin(&self, tick: u64) {
        let mut book = self.lock();
        match book.begun.replace(tick) {
            Some(last) if last == tick => book.repeated += 1,
            Some(last) => book.missed += (tick - last).saturating_sub(1),
            None => {}
        }
    }

    fn mark(&self, run: Run) -> Result<(), StaleToken> {
        let mut book = self.lock();
        if book.runs.front().is_some_and(|last| run.token <= last.token) {
            return Err(StaleToken);
        }
        book.ran += 1;
        book.runs.push_front(run);
        book.runs.truncate(4);
        self.marked.notify_one();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
