//! Operations to be sent to a server, with their replies.

use std::sync::Arc;

use crate::{
    error::Reason,
    node::Reply,
    protocol::{Answer, Op, views::View},
    sync::atomic::{AtomicUsize, Ordering},
};

#[derive(Debug)]
pub(super) struct NodeRequest {
    pub(super) op: Op,
    pub(super) reply: Reply,
    /// Whether the operation met another tag and was sent again.
    begun_again: bool,
    counted: Counted,
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a request is counted once");
    }
}

impl NodeRequest {
    /// `in_flight` counts the request until it is answered or dropped.
    pub(super) fn new(op: Op, reply: Reply, in_flight: &Arc<AtomicUsize>) -> Self {
        in_flight.fetch_add(1, Ordering::Relaxed);
        Self { op, reply, begun_again: false, counted: Counted(Arc::clone(in_flight)) }
    }

    /// Returns true at the first call.
    pub(super) fn begin_again(&mut self) -> bool {
        !std::mem::replace(&mut self.begun_again, true)
    }

    /// Sends the answer; the request is no longer counted by then.
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
