//! Whether the work of a name is done, as far as the nodes tell.
//!
//! Work is done once a quorum keeps its record, and each of them took it only while it kept the lock
//! of who did the work. A reader that has heard a quorum has heard one of those nodes. One word is
//! enough: a record of work that is done is true wherever it is found. A record of work whose outcome
//! is not known binds only if a quorum keeps it, as its work did not begin before.

use std::{sync::Arc, time::Duration};

use crate::protocol::{Record, rules};

/// What is recorded of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordStatus {
    /// Fewer than a quorum of nodes told, and none of them that the work is done.
    TooFew,
    /// No quorum keeps a record.
    Nothing,
    /// The work was begun, and what became of it is not known: a quorum keeps this record, or may.
    Unknown {
        /// The record.
        record: Arc<Record>,
        /// For how long still it is kept.
        remaining: Duration,
        /// Whether a quorum told it.
        is_certain: bool,
    },
    /// The work is done.
    Done {
        /// The record.
        record: Arc<Record>,
        /// For how long still it is kept.
        remaining: Duration,
    },
}

impl RecordStatus {
    /// Whether to hear more nodes would change nothing, but for a record that they alone keep.
    pub const fn is_settled(&self) -> bool {
        match self {
            Self::TooFew | Self::Unknown { is_certain: false, .. } => false,
            Self::Nothing | Self::Unknown { is_certain: true, .. } | Self::Done { .. } => true,
        }
    }
}

/// What `told` comes to: the records of the nodes that answered, with the time that each is still
/// kept, out of `nodes`.
pub fn status<'a>(
    told: impl IntoIterator<Item = Option<(&'a Arc<Record>, Duration)>>,
    nodes: usize,
) -> RecordStatus {
    let quorum = rules::quorum(nodes);
    let told: Vec<_> = told.into_iter().collect();
    let silent = nodes.saturating_sub(told.len());
    let records = || told.iter().copied().flatten();
    let longest = |of: &dyn Fn(&Record) -> bool| {
        records().filter(|(record, _)| of(record)).max_by_key(|(_, remaining)| *remaining)
    };
    if let Some((record, remaining)) = longest(&|record| record.is_done) {
        return RecordStatus::Done { record: Arc::clone(record), remaining };
    }
    if told.len() < quorum {
        return RecordStatus::TooFew;
    }
    let count =
        |of: &Record| records().filter(|(record, _)| record.lease.nonce == of.lease.nonce).count();
    let binding = |record: &Record| count(record) + silent >= quorum;
    match longest(&binding) {
        None => RecordStatus::Nothing,
        Some((record, remaining)) => RecordStatus::Unknown {
            record: Arc::clone(record),
            remaining,
            is_certain: count(record) >= quorum,
        },
    }
}
