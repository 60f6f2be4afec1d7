//! Operations to be sent to a server, with their replies.

use std::sync::Arc;

use crate::{
    error::Reason,
    node::{Reply, redis::plain_form},
    protocol::{Answer, Op, views::View},
    sync::atomic::{AtomicUsize, Ordering},
};

#[derive(Debug)]
pub(super) struct NodeRequest {
    pub(super) op: Op,
    pub(super) reply: Reply,
    /// Number of plain commands that it is sent as; `None` if it is sent as a script.
    plain: Option<usize>,
    /// Whether plain commands stored a key that did not count as a grant.
    stored: bool,
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
        let plain = plain_form::commands(&op);
        let counted = Counted(Arc::clone(in_flight));
        Self { op, reply, plain, stored: false, begun_again: false, counted }
    }

    /// Returns whether the operation is sent as plain commands.
    pub(super) const fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    /// Returns the number of commands that it is sent as.
    pub(super) fn commands(&self) -> usize {
        self.plain.unwrap_or(1)
    }

    /// Makes the script the form of the operation. `stored`: whether its plain commands stored a key.
    pub(super) const fn use_script(&mut self, stored: bool) {
        self.plain = None;
        self.stored |= stored;
    }

    /// Returns true at the first call.
    pub(super) fn begin_again(&mut self) -> bool {
        !std::mem::replace(&mut self.begun_again, true)
    }

    /// Sends the answer; the request is no longer counted by then.
    pub(super) fn answer(self, result: Result<Answer, Reason>, view: Option<Arc<View>>) {
        let Self { reply, counted, stored, .. } = self;
        drop(counted);
        // The script may not have run, but a key is there.
        let is_there = |reason: Reason| {
            if stored && !reason.may_have_run() { Reason::Unknown } else { reason }
        };
        reply.send_with_view(result.map_err(is_there), view);
    }

    pub(super) fn not_sent(self, reason: Reason) {
        if self.stored {
            return self.answer(Err(reason), None);
        }
        let Self { reply, counted, .. } = self;
        drop(counted);
        reply.not_sent(reason);
    }
}
