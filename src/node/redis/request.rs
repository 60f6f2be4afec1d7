//! An operation on its way to a server, with the reply that it is answered to.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{
    error::Reason,
    node::Reply,
    protocol::{Answer, Op, names::View},
};

#[derive(Debug)]
pub(super) struct NodeRequest {
    pub(super) op: Op,
    pub(super) reply: Reply,
    /// It met another tag than it was sent with, and is sent once more.
    begun_again: bool,
    /// Counts as long as the request is there.
    counted: Counted,
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl NodeRequest {
    /// `in_flight` counts the request until it is answered or dropped.
    pub(super) fn new(op: Op, reply: Reply, in_flight: &Arc<AtomicUsize>) -> Self {
        in_flight.fetch_add(1, Ordering::Relaxed);
        Self { op, reply, begun_again: false, counted: Counted(Arc::clone(in_flight)) }
    }

    /// True the first time.
    pub(super) fn begin_again(&mut self) -> bool {
        !std::mem::replace(&mut self.begun_again, true)
    }

    /// Answers, and is counted no more by the time of the answer.
    pub(super) fn answer(self, result: Result<Answer, Reason>, view: Option<Arc<View>>) {
        let Self { reply, counted, .. } = self;
        drop(counted);
        reply.send_with_view(result, view);
    }

    pub(super) fn not_sent(self, reason: Reason) {
        let Self { reply, counted, .. } = self;
        drop(counted);
        reply.not_sent(reason);
    }
}
