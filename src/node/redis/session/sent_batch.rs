//! Commands that were written and wait for their replies.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use ::redis::Value;
use tokio::{sync::oneshot, time::Instant};

use super::voting_tag::VotingTag;
use crate::{
    error::Reason,
    node::redis::{
        encode::ScriptRef,
        enrol::{ChangeKind, NodeReport, Tag},
        request::NodeRequest,
        scripts::OperationScript,
        server_clock::ServerClock,
    },
    protocol::Op,
    time::Timestamp,
};

pub(super) struct SentBatch {
    pub(super) sent: Timestamp,
    /// The time at which it was sent, on a clock that is never corrected: a correction would look
    /// like silence.
    pub(super) waiting_since: Instant,
    pub(super) content: BatchContent,
    /// Number of its commands, and the replies so far.
    pub(super) commands: usize,
    pub(super) answers: Vec<Value>,
    /// Memory left for its replies, in bytes.
    pub(super) left: usize,
}

impl SentBatch {
    /// Creates a batch that is written now.
    pub(super) fn new(sent: Timestamp, commands: usize, content: BatchContent) -> Self {
        Self {
            sent,
            waiting_since: Instant::now(),
            left: content.most_memory(),
            content,
            commands,
            answers: Vec::with_capacity(commands),
        }
    }

    pub(super) fn is_answered(&self) -> bool {
        debug_assert!(self.answers.len() <= self.commands, "each answer has a command");
        self.answers.len() == self.commands
    }
}

/// The written batches in order; their answers arrive in the same order.
#[derive(Default)]
pub(super) struct SentBatches {
    batches: VecDeque<SentBatch>,
    /// Number of operations in these batches.
    operations: usize,
}

impl SentBatches {
    pub(super) fn is_empty(&self) -> bool {
        debug_assert!(!self.batches.is_empty() || self.operations == 0, "operations are counted");
        self.batches.is_empty()
    }

    /// Returns the number of unanswered operations.
    pub(super) const fn operations(&self) -> usize {
        self.operations
    }

    pub(super) fn push(&mut self, batch: SentBatch) {
        self.operations += batch.content.operations();
        self.batches.push_back(batch);
    }

    /// Returns the batch whose answers are read next.
    pub(super) fn first_mut(&mut self) -> Option<&mut SentBatch> {
        self.batches.front_mut()
    }

    /// Removes the first batch if it is answered.
    pub(super) fn pop_answered(&mut self) -> Option<SentBatch> {
        if !self.batches.front()?.is_answered() {
            return None;
        }
        let batch = self.batches.pop_front()?;
        self.operations -= batch.content.operations();
        Some(batch)
    }

    /// Returns the time for which the first batch has waited.
    pub(super) fn waited(&self) -> Option<Duration> {
        self.batches.front().map(|batch| batch.waiting_since.elapsed())
    }

    /// Takes all batches.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = SentBatch> + use<> {
        std::mem::take(self).batches.into_iter()
    }
}

/// The times of a command and its answer, by the local clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    pub(super) sent: Timestamp,
    pub(super) received: Timestamp,
}

impl RoundTrip {
    pub(super) fn duration(self) -> Duration {
        self.received.saturating_duration_since(self.sent)
    }
}

pub(super) enum BatchContent {
    /// A health check, with the tag that names the key of the fences.
    HealthCheck {
        tag: Tag,
    },
    /// TIME by itself.
    Clock,
    /// A change of the record, with the tag that the record then has, the report that the change
    /// was decided by, and the round trip of that report.
    Change {
        tag: Tag,
        trip: RoundTrip,
        report: Box<NodeReport>,
        kind: ChangeKind,
    },
    /// An `AUTH` command.
    Login,
    /// Scripts that the server loads.
    Scripts(Vec<OperationScript>),
    AdminRequest(oneshot::Sender<Result<Vec<Value>, Reason>>),
    /// One command for each operation, followed by TIME if one of them is an acquire.
    Operations(OperationBatch),
}

pub(super) struct OperationBatch {
    pub(super) requests: Vec<NodeRequest>,
    pub(super) by: ScriptRef,
    /// The tag that they were sent with.
    pub(super) vote: Option<Arc<VotingTag>>,
    /// The basis of their deadlines.
    pub(super) server_clock: ServerClock,
}

/// Maximum memory of the replies to one write, in bytes.
const MAX_ANSWERS: usize = 4 * 1024 * 1024;
/// The same for replies with records, documents, the claims of many jobs, or a whole hash.
const MAX_LONG_ANSWERS: usize = 64 * 1024 * 1024;

impl BatchContent {
    fn operations(&self) -> usize {
        match self {
            Self::Operations(operations) => operations.requests.len(),
            _ => 0,
        }
    }

    pub(super) fn most_memory(&self) -> usize {
        let is_long_op = |op: &Op| {
            use Op::{Claims, Prepare, ReadRecord, Record, Repair};
            matches!(op, ReadRecord(_) | Record(_) | Repair(_) | Claims(_) | Prepare(_))
        };
        let is_long = match self {
            Self::HealthCheck { .. }
            | Self::Clock
            | Self::Change { .. }
            | Self::Login
            | Self::Scripts(_) => false,
            Self::AdminRequest(_) => true,
            Self::Operations(operations) => {
                operations.requests.iter().any(|request| is_long_op(&request.op))
            }
        };
        if is_long { MAX_LONG_ANSWERS } else { MAX_ANSWERS }
    }
}
