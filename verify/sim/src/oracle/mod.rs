//! What must not happen, judged while it happens.

mod holds;
mod once;
mod ticks;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use self::{holds::HoldGuard, once::OnceGuard};
use self::{holds::Holds, once::OnceKeys, ticks::Ticks};
use crate::{net::Net, trace::Trace};

/// A kind of violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Two holders believe that they hold one name.
    Exclusion,
    /// Work was polled at or after the end of its lock.
    HardStop,
    /// A token is not greater than that of an earlier lease.
    Fencing,
    /// A tick was started twice.
    OneStart,
    /// Work of a key ran twice at once.
    Once,
    /// Work of a key ran that was recorded as done.
    Done,
    /// A key outlived its holder by more than its TTL.
    NoDeadlock,
    /// A request did not end.
    Ends,
    /// Without faults, something does not go on.
    Liveness,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// How.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.text)
    }
}

/// The judge of a run. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Oracle {
    net: Net,
    book: Arc<Mutex<Book>>,
}

#[derive(Debug, Default)]
struct Book {
    holds: Holds,
    ticks: Ticks,
    once: OnceKeys,
    violations: Vec<Violation>,
    /// Promises that the faults of this run are outside of.
    excused: BTreeSet<Promise>,
    counts: BTreeMap<&'static str, u64>,
}

impl Oracle {
    /// A judge that excuses these promises.
    pub fn new(net: &Net, excused: impl IntoIterator<Item = Promise>) -> Self {
        let book = Book { excused: excused.into_iter().collect(), ..Book::default() };
        Self { net: net.clone(), book: Arc::new(Mutex::new(book)) }
    }

    /// The violations so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }

    /// How much of what happened.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.lock().counts.clone()
    }

    /// Counts something.
    pub fn count(&self, what: &'static str) {
        *self.lock().counts.entry(what).or_default() += 1;
    }

    /// Records a violation.
    pub fn broken(&self, promise: Promise, text: impl Into<String>) {
        let text = text.into();
        let mut book = self.lock();
        if book.excused.contains(&promise) {
            *book.counts.entry("excused").or_default() += 1;
            drop(book);
            self.event(format!("excused: {promise:?}: {text}"));
            return;
        }
        book.violations.push(Violation { promise, text: text.clone() });
        drop(book);
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

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
