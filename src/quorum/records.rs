//! Whether the work of a name is done, as far as the nodes tell.
//!
//! Work is done once a quorum keeps its record, and each of them took it only while it kept the lock
//! of who did the work. A reader that has heard a quorum has heard one of those nodes. One word is
//! enough: a record of work that is done is true wherever it is found. A record of work whose outcome
//! is not known binds only if a quorum keeps it, as its work did not begin before.

use std::{sync::Arc, time::Duration};

use super::rules;
use crate::node::Record;

/// What is recorded of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
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

impl Standing {
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
pub fn standing<'a>(
    told: impl IntoIterator<Item = Option<(&'a Arc<Record>, Duration)>>,
    nodes: usize,
) -> Standing {
    let quorum = rules::quorum(nodes);
    let told: Vec<_> = told.into_iter().collect();
    let silent = nodes.saturating_sub(told.len());
    let records = || told.iter().copied().flatten();
    let longest = |of: &dyn Fn(&Record) -> bool| {
        records().filter(|(record, _)| of(record)).max_by_key(|(_, remaining)| *remaining)
    };
    if let Some((record, remaining)) = longest(&|record| record.is_done) {
        return Standing::Done { record: Arc::clone(record), remaining };
    }
    if told.len() < quorum {
        return Standing::TooFew;
    }
    let count =
        |of: &Record| records().filter(|(record, _)| record.lease.nonce == of.lease.nonce).count();
    let binding = |record: &Record| count(record) + silent >= quorum;
    match longest(&binding) {
        None => Standing::Nothing,
        Some((record, remaining)) => Standing::Unknown {
            record: Arc::clone(record),
            remaining,
            is_certain: count(record) >= quorum,
        },
    }
}

/// The nodes whose records were read for one that forgot its own, that one included. A node that does
/// not vote is not counted: its name may lead others to a server that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// How many nodes the set has.
    pub nodes: usize,
    /// Nodes that vote and lack no records.
    pub complete: usize,
    /// Nodes that vote and lack records themselves.
    pub incomplete: usize,
    /// The node started with a quorum of nodes that forgot, not by learning from others.
    pub is_bootstrapped: bool,
}

impl Sources {
    /// Whether the node may say from now on that there is no record.
    ///
    /// Each record that a quorum keeps is on one of N−q+1 other nodes that lack none. Where fewer
    /// lack none, a node that was not read may be the only one left that keeps a record, whatever the
    /// others forgot: so all have to be read. A bootstrapped node is part of a new set, whose records
    /// are all on one of any q nodes, itself included.
    pub const fn suffice(self) -> bool {
        let quorum = rules::quorum(self.nodes);
        let read = self.complete + self.incomplete;
        self.complete > self.nodes - quorum
            || read >= if self.is_bootstrapped { quorum } else { self.nodes }
    }
}
