//! The ends that this process owes to quorums of nodes.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use super::OwedEnd;
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

/// The ends that a manager owes to quorums of its nodes.
#[derive(Debug, Default)]
pub(crate) struct OwedEnds {
    ends: Mutex<Ends>,
}

#[derive(Debug, Default)]
struct Ends {
    all: HashMap<(OwedKind, Arc<str>), Arc<OwedEnd>>,
    /// Number of those that are carried on without their callers, and the bytes that they take.
    listed: usize,
    bytes: usize,
}

impl OwedEnds {
    /// Adds an end, in place of an earlier one of the same key, which is over.
    pub(super) fn add(&self, end: &Arc<OwedEnd>) {
        let (kind, name) = end.key();
        let before = self.ends().all.insert((kind, Arc::clone(name)), Arc::clone(end));
        if let Some(before) = before {
            before.cancel();
        }
    }

    /// Counts an end that is carried on without its caller. Returns whether there is room for it.
    pub(super) fn list(&self, end: &OwedEnd) -> bool {
        let mut ends = self.ends();
        ends.listed += 1;
        ends.bytes += end.bytes();
        ends.listed <= MAX_OWED && ends.bytes <= MAX_BYTES
    }

    pub(super) fn remove(&self, end: &OwedEnd, is_listed: bool) {
        let (kind, name) = end.key();
        let key = (kind, Arc::clone(name));
        {
            let mut ends = self.ends();
            if ends.all.get(&key).is_some_and(|kept| std::ptr::eq(&raw const **kept, end)) {
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
        self.end(OwedKind::Record, name)?.kept_record()
    }

    pub(crate) fn end(&self, kind: OwedKind, name: &Arc<str>) -> Option<Arc<OwedEnd>> {
        let ends = self.ends();
        if ends.all.is_empty() {
            return None;
        }
        ends.all.get(&(kind, Arc::clone(name))).map(Arc::clone)
    }

    /// Returns whether nothing is owed.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends().all.is_empty()
    }

    /// Returns what is owed without a caller, the oldest first.
    pub(crate) fn list_all(&self) -> Vec<Owed> {
        let ends: Vec<_> = self.ends().all.values().map(Arc::clone).collect();
        let listed = ends.iter().filter(|end| end.is_listed());
        let mut owed: Vec<_> = listed.map(|end| end.describe()).collect();
        owed.sort_by(|a, b| b.age.cmp(&a.age).then_with(|| a.name.cmp(&b.name)));
        owed
    }

    /// Gives all of them up.
    pub(crate) fn give_up(&self, why: &str) {
        let ends: Vec<_> = self.ends().all.values().map(Arc::clone).collect();
        ends.iter().for_each(|end| end.give_up(why));
    }

    fn ends(&self) -> Guard<'_, Ends> {
        crate::sync::lock(&self.ends)
    }
}
