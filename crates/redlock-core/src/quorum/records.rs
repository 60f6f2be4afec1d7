//! Whether the work of a name is done, from the records that the nodes store (R13).
//!
//! Work is done once a quorum stores its record, and a node stores it only while it stores the key
//! of the worker's lock. Every quorum of answers includes one of these nodes, and one is enough: a
//! record of work that is *done* is true wherever it is found. If fewer than a quorum keep it, it
//! is copied to the others, unless it expires within a node timeout. A value that cannot be read
//! does not count as an answer that there is no record. A node that lacks records abstains from
//! such an answer (R6).
//!
//! A record that the work was *begun* counts if a quorum may keep it, together with the silent
//! nodes, because the work did not begin before a quorum stored it. One that is left on a single
//! node blocks the key while another node is silent. Of several records of unfinished work, the one
//! with the latest expiry counts.
//!
//! Of several records of done work, the one with the highest token counts: a worker whose validity
//! ended first may still store its record where the later worker's is missing, and the later one is
//! on a quorum. Of one worker, the one with the latest expiry.

use std::{sync::Arc, time::Duration};

use crate::protocol::{Record, formulas};

/// The status of a name's record, by the answers so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordStatus {
    /// Fewer than a quorum of nodes answered, and none of them that the work is done.
    TooFew,
    /// No quorum stores a record.
    Nothing,
    /// The work was begun, and its outcome is unknown: a quorum stores this record, or may store
    /// it.
    Unknown {
        /// The record.
        record: Arc<Record>,
        /// The record's remaining TTL.
        remaining: Duration,
        /// Whether a quorum reported it.
        is_certain: bool,
    },
    /// The work is done.
    Done {
        /// The record.
        record: Arc<Record>,
        /// The record's remaining TTL.
        remaining: Duration,
    },
}

impl RecordStatus {
    /// Returns whether more answers could only change the status to [`Done`](Self::Done).
    pub const fn is_settled(&self) -> bool {
        match self {
            Self::TooFew | Self::Unknown { is_certain: false, .. } => false,
            Self::Nothing | Self::Unknown { is_certain: true, .. } | Self::Done { .. } => true,
        }
    }
}

/// Returns the status by `answers`: the records of the nodes that answered, out of `nodes`, each
/// with its remaining TTL.
pub fn status<'a>(
    answers: impl IntoIterator<Item = Option<(&'a Arc<Record>, Duration)>>,
    nodes: usize,
) -> RecordStatus {
    let quorum = formulas::quorum(nodes);
    let answers: Vec<_> = answers.into_iter().collect();
    let silent = nodes.saturating_sub(answers.len());
    let records = || answers.iter().copied().flatten();
    let done = records().filter(|(record, _)| record.is_done);
    if let Some((record, remaining)) =
        done.max_by_key(|(record, remaining)| (record.lease.token, *remaining))
    {
        return RecordStatus::Done { record: Arc::clone(record), remaining };
    }
    if answers.len() < quorum {
        return RecordStatus::TooFew;
    }
    let count =
        |of: &Record| records().filter(|(record, _)| record.lease.nonce == of.lease.nonce).count();
    let binding = |record: &Record| count(record) + silent >= quorum;
    let unfinished = records().filter(|(record, _)| binding(record));
    match unfinished.max_by_key(|(_, remaining)| *remaining) {
        None => RecordStatus::Nothing,
        Some((record, remaining)) => RecordStatus::Unknown {
            record: Arc::clone(record),
            remaining,
            is_certain: count(record) >= quorum,
        },
    }
}
