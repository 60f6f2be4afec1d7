//! The oracle, which checks for violations during a run.

mod holds;
mod once;
mod slots;
mod ticks;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use self::{holds::HoldGuard, once::OnceGuard, slots::HeldSlot, ticks::MissedTicks};
use self::{holds::Holds, once::OnceKeys, ticks::Ticks};
use crate::{net::Net, trace::Trace};

/// A kind of violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Two holders believe that they hold one name, or one slot, and not both share it.
    Exclusion,
    /// More holders believe that they hold a slot of one name than it has.
    Slots,
    /// Work was polled at or after the end of its lock.
    HardStop,
    /// A token is not greater than the token of an earlier lease, or that of a shared lease is less
    /// than the token of an earlier exclusive one.
    Fencing,
    /// A tick was started twice.
    OneStart,
    /// A tick that was reported as missed was started, or was reported again.
    OneFate,
    /// The work of a key ran twice at the same time.
    Once,
    /// The work of a key ran although it was recorded as done.
    Done,
    /// A key outlived its holder by more than its TTL.
    NoDeadlock,
    /// A request did not end.
    Ends,
    /// Without faults, there is no progress.
    Liveness,
    /// A request of names in two sets was not refused at once, a client with another list of sets got
    /// a lock, or a set that is down failed names of another one.
    Sets,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The broken promise.
    pub promise: Promise,
    /// A description of the violation.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.text)
    }
}

/// The oracle of a run. Clones are the same oracle.
#[derive(Clone, Debug)]
pub struct Oracle {
    net: Net,
    records: Arc<Mutex<Records>>,
}

#[derive(Debug, Default)]
struct Records {
    holds: Holds,
    ticks: Ticks,
    once: OnceKeys,
    violations: Vec<Violation>,
    /// The client that may hold nothing.
    forbidden: Option<usize>,
    /// Promises that do not hold under the faults of this run.
    excused: BTreeSet<Promise>,
    counts: BTreeMap<&'static str, u64>,
}

impl Oracle {
    /// Creates an oracle that ignores violations of these promises.
    pub fn new(net: &Net, excused: impl IntoIterator<Item = Promise>) -> Self {
        let records = Records { excused: excused.into_iter().collect(), ..Records::default() };
        Self { net: net.clone(), records: Arc::new(Mutex::new(records)) }
    }

    /// Forbids a client to hold anything.
    pub fn forbid(&self, client: usize) {
        self.lock().forbidden = Some(client);
    }

    /// The violations so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }

    /// Returns the number of events of each kind.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.lock().counts.clone()
    }

    /// Counts an event.
    pub fn count(&self, what: &'static str) {
        *self.lock().counts.entry(what).or_default() += 1;
    }

    /// Records a violation.
    pub fn broken(&self, promise: Promise, text: impl Into<String>) {
        let text = text.into();
        let mut records = self.lock();
        if records.excused.contains(&promise) {
            *records.counts.entry("excused").or_default() += 1;
            drop(records);
            self.event(format!("excused: {promise:?}: {text}"));
            return;
        }
        records.violations.push(Violation { promise, text: text.clone() });
        drop(records);
        self.event(format!("VIOLATION {promise:?}: {text}"));
    }

    /// Adds a line to the trace.
    pub fn event(&self, what: impl fmt::Display) {
        self.net.trace().event(self.net.now(), what);
    }

    /// The trace of the run.
    pub fn trace(&self) -> &Trace {
        self.net.trace()
    }

    /// The time since the start of the run, in µs.
    pub fn now(&self) -> u64 {
        self.net.now()
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
