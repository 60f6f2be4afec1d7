//! Commands that were written and wait for their replies.

use std::sync::Arc;

use ::redis::Value;
use tokio::{sync::oneshot, time::Instant};

use crate::{
    error::Reason,
    node::redis::{
        encode::ScriptRef,
        enrol::{ChangeKind, NodeReport, Tag},
        request::NodeRequest,
        scripts::OperationScript,
        server_clock::ServerClock,
    },
    protocol::{Op, views::View},
    time::Timestamp,
};

pub(super) struct SentBatch {
    pub(super) sent: Timestamp,
    /// The time at which it was sent, on a clock that is never corrected: a correction would look
    /// like silence.
    pub(super) waiting_since: Instant,
    /// The basis of the deadlines of its operations.
    pub(super) server_clock: ServerClock,
    /// The tag of its operations, and the view that the tag stands for.
    pub(super) tag: Tag,
    pub(super) view: Option<Arc<View>>,
    pub(super) content: BatchContent,
    /// Number of its commands, and the replies so far.
    pub(super) commands: usize,
    pub(super) answers: Vec<Value>,
    /// Memory left for its replies, in bytes.
    pub(super) left: usize,
}

impl SentBatch {
    pub(super) fn is_answered(&self) -> bool {
        debug_assert!(self.answers.len() <= self.commands, "each answer has a command");
        self.answers.len() == self.commands
    }
}

pub(super) enum BatchContent {
    /// A health check, with the tag that names the key of the fences.
    HealthCheck {
        tag: Tag,
    },
    /// A change of the record, with the tag that the record then has, the report that the change
    /// was decided by, and the times of that report.
    Change {
        tag: Tag,
        times: (Timestamp, Timestamp),
        report: Box<NodeReport>,
        kind: ChangeKind,
    },
    /// An `AUTH` command.
    Login,
    /// Scripts that the server loads.
    Scripts(Vec<OperationScript>),
    AdminRequest(oneshot::Sender<Result<Vec<Value>, Reason>>),
    /// One command for each operation, followed by TIME if one of them is an acquire.
    Operations {
        requests: Vec<NodeRequest>,
        by: ScriptRef,
    },
}

/// Maximum memory of the replies to one write, in bytes.
const MAX_ANSWERS: usize = 4 * 1024 * 1024;
/// The same for replies with records, documents, the claims of many jobs, or a whole hash.
const MAX_LONG_ANSWERS: usize = 64 * 1024 * 1024;

impl BatchContent {
    pub(super) fn most_memory(&self) -> usize {
        let is_long_op = |op: &Op| {
            use Op::{Claims, Prepare, ReadRecord, Record, Repair};
            matches!(op, ReadRecord(_) | Record(_) | Repair(_) | Claims(_) | Prepare(_))
        };
        let is_long = match self {
            Self::HealthCheck { .. } | Self::Change { .. } | Self::Login | Self::Scripts(_) => {
                false
            }
            Self::AdminRequest(_) => true,
            Self::Operations { requests, .. } => {
                requests.iter().any(|request| is_long_op(&request.op))
            }
        };
        if is_long { MAX_LONG_ANSWERS } else { MAX_ANSWERS }
    }
}
