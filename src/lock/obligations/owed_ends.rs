//! The ends that this process owes to quorums of nodes.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use crate::{
    protocol::Record,
    sync::{Guard, Mutex},
};

/// Maximum number of ends that are owed without their callers, and of bytes that they take.
pub(super) const MAX_OWED: usize = 10_000;
const MAX_BYTES: usize = 64 << 20;

/// An end that this process owes to the nodes: too few of them have stored it.
///
/// It is sent again as soon as a node answers. Listed by [`Snapshot::owed`](super::super::Snapshot::owed).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owed {
    /// What is owed.
    pub kind: OwedKind,
    /// The name of the lock of the work, or of the job.
    pub name: Arc<str>,
    /// Time since the end.
    pub age: Duration,
    /// Whether no other client can begin the work: its lock is still valid.
    pub is_protected: bool,
}

/// The kind of an end that is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OwedKind {
    /// The record of work that is done [once](mod@crate::once).
    Record,
    /// The end of a job's run.
    Run,
}

impl fmt::Display for OwedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Record => "record",
            Self::Run => "end of a run",
        })
    }
}

/// An end that is owed, as the list of them uses it.
pub(crate) trait ListedEnd: fmt::Debug + Send + Sync {
    /// Returns the key under which it is kept: an end replaces an earlier one with the same key.
    fn key(&self) -> (OwedKind, &Arc<str>);

    /// Returns the memory that it takes besides a constant, in bytes.
    fn bytes(&self) -> usize;

    /// Returns it as people see it; `None` while its caller waits for it.
    fn describe(&self) -> Option<Owed>;

    /// Returns the record, and the time for which it is kept, unless that is over.
    fn record(&self) -> Option<(Arc<Record>, Duration)>;

    /// Ends it without a quorum, and reports that.
    fn give_up(&self, why: &str);

    /// Ends it, as a later end or a person has decided about it.
    fn cancel(&self);
}

/// The ends that a manager owes to quorums of its nodes.
#[derive(Debug, Default)]
pub(crate) struct OwedEnds {
    ends: Mutex<Ends>,
}

#[derive(Debug, Default)]
struct Ends {
    all: HashMap<(OwedKind, Arc<str>), Arc<dyn ListedEnd>>,
    /// Number of those that are carried on without their callers, and the bytes that they take.
    listed: usize,
    bytes: usize,
}

impl OwedEnds {
    /// Adds an end, in place of an earlier one of the same key, which is over.
    pub(super) fn add(&self, end: Arc<dyn ListedEnd>) {
        let (kind, name) = end.key();
        let key = (kind, Arc::clone(name));
        let before = self.ends().all.insert(key, end);
        if let Some(before) = before {
            before.cancel();
        }
    }

    /// Counts an end that is carried on without its caller. Returns whether there is room for it.
    pub(super) fn list(&self, bytes: usize) -> bool {
        let mut ends = self.ends();
        ends.listed += 1;
        ends.bytes += bytes;
        ends.listed <= MAX_OWED && ends.bytes <= MAX_BYTES
    }

    pub(super) fn remove(&self, end: &dyn ListedEnd, is_listed: bool) {
        let (kind, name) = end.key();
        let key = (kind, Arc::clone(name));
        {
            let mut ends = self.ends();
            if ends.all.get(&key).is_some_and(|kept| std::ptr::addr_eq(&raw const **kept, end)) {
                ends.all.remove(&key);
            }
            if is_listed {
                ends.listed -= 1;
                ends.bytes -= end.bytes();
            }
        }
        if is_listed {
            crate::metrics::owed(-1.0);
        }
    }

    /// Returns the record of a name that this process owes, and the time for which it is kept.
    pub(crate) fn record(&self, name: &Arc<str>) -> Option<(Arc<Record>, Duration)> {
        self.end(OwedKind::Record, name)?.record()
    }

    /// Ends what is owed of a key, as a person decides about it.
    pub(crate) fn cancel_record(&self, name: &Arc<str>) {
        if let Some(end) = self.end(OwedKind::Record, name) {
            end.cancel();
        }
    }

    fn end(&self, kind: OwedKind, name: &Arc<str>) -> Option<Arc<dyn ListedEnd>> {
        let ends = self.ends();
        if ends.all.is_empty() {
            return None;
        }
        ends.all.get(&(kind, Arc::clone(name))).map(Arc::clone)
    }

    /// Returns the number of ends that are owed.
    pub(crate) fn count(&self) -> usize {
        self.ends().all.len()
    }

    /// Returns what is owed without a caller, the oldest first.
    pub(crate) fn list_all(&self) -> Vec<Owed> {
        let ends: Vec<_> = self.ends().all.values().map(Arc::clone).collect();
        let mut owed: Vec<_> = ends.iter().filter_map(|end| end.describe()).collect();
        owed.sort_by(|a, b| b.age.cmp(&a.age).then_with(|| a.name.cmp(&b.name)));
        owed
    }

    /// Gives all of them up.
    pub(crate) fn give_up(&self, why: &str) {
        let ends: Vec<_> = self.ends().all.values().map(Arc::clone).collect();
        for end in ends {
            end.give_up(why);
        }
    }

    fn ends(&self) -> Guard<'_, Ends> {
        crate::sync::lock(&self.ends)
    }
}
