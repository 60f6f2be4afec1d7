//! One end that a node has to learn of.

use std::{fmt, sync::Arc};

use crate::{
    error::Reason,
    protocol::{Answer, ForgetOp, LeaseId, Op},
    time::Timestamp,
};

/// An end that a node has to learn of. It is sent until the node has acknowledged it.
pub(crate) trait Obligation: fmt::Debug + Send + Sync + 'static {
    /// Returns the operation to send to the node; `None` if nothing is owed to it any more.
    fn op(self: Arc<Self>, node: usize, now: Timestamp) -> Option<Op>;

    /// Handles the node's answer. Returns whether the node has acknowledged the end.
    ///
    /// Called on the thread that receives the answer, with no mutex of the crate locked.
    fn answered(&self, node: usize, answer: Result<Answer, Reason>) -> bool;

    /// Called if it is not sent to a node any more, as too many wait for it.
    fn dropped(&self) {}

    /// Returns the name of what ends, for the log.
    fn subject(&self) -> String;
}

/// A release.
impl Obligation for LeaseId {
    fn op(self: Arc<Self>, _: usize, _: Timestamp) -> Option<Op> {
        Some(Op::Release(self))
    }

    fn answered(&self, _: usize, answer: Result<Answer, Reason>) -> bool {
        matches!(answer, Ok(Answer::Released(_)))
    }

    fn subject(&self) -> String {
        self.resource().to_string()
    }
}

/// The removal of the record of work that has not started.
impl Obligation for ForgetOp {
    fn op(self: Arc<Self>, _: usize, _: Timestamp) -> Option<Op> {
        Some(Op::Forget(Self::clone(&self)))
    }

    fn answered(&self, _: usize, answer: Result<Answer, Reason>) -> bool {
        matches!(answer, Ok(Answer::Forgotten(_)))
    }

    fn subject(&self) -> String {
        self.name.to_string()
    }
}
