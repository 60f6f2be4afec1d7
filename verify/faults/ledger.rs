//! The workers' reports: holds, attempts on their own names, writes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tower_redlock_verify::history::Hold;

use crate::resource::Resource;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Mutex<Entries>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) holds: Vec<Hold>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) resource: Resource,
    pub(crate) events: Vec<(usize, Event)>,
    /// Requests that took longer than allowed.
    pub(crate) slow: Vec<String>,
}

/// An attempt on a name that no other worker wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) worker: usize,
    /// Start of the attempt in nanoseconds, as in [`Hold`].
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) granted: bool,
    /// Number of voting servers that the worker knew then; the control has no votes.
    pub(crate) voting: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A quorum of servers votes.
    Ready,
    /// The subject has its lock.
    Granted,
    /// The subject's release is over.
    Released,
    /// There are no more reports.
    Ended,
}

impl Ledger {
    pub(crate) fn update<T>(&self, update: impl FnOnce(&mut Entries) -> T) -> T {
        let result = update(&mut self.entries());
        self.changed.notify_all();
        result
    }

    /// Waits until the entries satisfy a condition, and returns whether they did in time.
    pub(crate) fn wait(
        &self,
        patience: Duration,
        mut is_reached: impl FnMut(&Entries) -> bool,
    ) -> bool {
        let end = Instant::now() + patience;
        let mut entries = self.entries();
        while !is_reached(&entries) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(entries, left);
            entries = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Waits for an event of a worker.
    pub(crate) fn await_event(
        &self,
        worker: usize,
        event: Event,
        patience: Duration,
    ) -> Result<(), String> {
        if self.wait(patience, |entries| entries.events.contains(&(worker, event))) {
            return Ok(());
        }
        Err(format!("worker {worker}: not {event:?} after {patience:?}"))
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
