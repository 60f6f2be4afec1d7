//! The workers' reports: holds, attempts on their own names, writes, observations.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::history::Hold;
use crate::observations::Observation;
use crate::resource::Resource;

/// The reports so far, which threads can wait for.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Mutex<Entries>,
    changed: Condvar,
}

/// The reports of all workers, in the order in which they were read.
#[derive(Debug, Default)]
pub struct Entries {
    /// The stretches in which locks were held.
    pub holds: Vec<Hold>,
    /// The attempts on the workers' own names.
    pub attempts: Vec<Attempt>,
    /// The resource that holders of the contended name write to.
    pub resource: Resource,
    /// The workers' events.
    pub events: Vec<(usize, Event)>,
    /// The workers' observations of nodes, until they are taken.
    pub observations: Vec<(usize, Observation)>,
    /// Requests that took longer than allowed.
    pub slow: Vec<String>,
}

/// An attempt on a name that no other worker wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The worker process.
    pub worker: usize,
    /// Start of the attempt in nanoseconds, as in [`Hold`].
    pub from: u64,
    /// End of the attempt.
    pub until: u64,
    /// Whether the lock was granted.
    pub granted: bool,
    /// Number of voting servers that the worker knew then; the control has no votes.
    pub voting: Option<usize>,
}

/// An event of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
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
    /// Changes the entries, and wakes the threads that wait for a change.
    pub fn update<T>(&self, update: impl FnOnce(&mut Entries) -> T) -> T {
        let result = update(&mut self.entries());
        self.changed.notify_all();
        result
    }

    /// Waits until the entries satisfy a condition, and returns whether they did in time.
    pub fn wait(&self, limit: Duration, mut is_reached: impl FnMut(&Entries) -> bool) -> bool {
        let end = Instant::now() + limit;
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
    pub fn await_event(&self, worker: usize, event: Event, limit: Duration) -> Result<(), String> {
        if self.wait(limit, |entries| entries.events.contains(&(worker, event))) {
            return Ok(());
        }
        Err(format!("worker {worker}: not {event:?} after {limit:?}"))
    }

    /// The entries, locked.
    pub fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
