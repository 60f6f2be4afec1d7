//! The reply to an operation.

use std::{fmt, sync::Arc};

use crate::{
    error::Reason,
    protocol::{Answer, OpId, views::View},
};

/// Receives the answers to all operations of a lease, so that a late answer needs no task or
/// allocation.
pub(crate) trait ReplySink: Send + Sync {
    fn answer(
        self: Arc<Self>,
        node: usize,
        op: OpId,
        result: Result<Answer, Reason>,
        view: Option<Arc<View>>,
    );

    /// Reports that the operation was not sent and never will be.
    fn not_sent(self: Arc<Self>, node: usize, op: OpId, reason: Reason);
}

/// Receives the answer to one operation. Dropping it without an answer reports an unknown outcome.
#[must_use = "dropping it reports an unknown outcome"]
pub struct Reply(Option<ReplyTarget>);

enum ReplyTarget {
    Lease { sink: Arc<dyn ReplySink>, node: usize, op: OpId },
    Closure(Box<Closure>),
}

type Closure = dyn FnOnce(Result<Answer, Reason>, Option<Arc<View>>) + Send;

impl Reply {
    /// Creates a reply that calls a closure, to call a node directly or to test one.
    ///
    /// The closure is called exactly once, with [`Reason::Unknown`] if the reply is dropped.
    pub fn from_fn(f: impl FnOnce(Result<Answer, Reason>) + Send + 'static) -> Self {
        Self::from_fn_with_view(move |result, _| f(result))
    }

    /// Like [`from_fn`](Self::from_fn); the closure also gets the view under which the node
    /// answered.
    pub(crate) fn from_fn_with_view(
        f: impl FnOnce(Result<Answer, Reason>, Option<Arc<View>>) + Send + 'static,
    ) -> Self {
        Self(Some(ReplyTarget::Closure(Box::new(f))))
    }

    pub(crate) fn to_lease(sink: Arc<dyn ReplySink>, node: usize, op: OpId) -> Self {
        Self(Some(ReplyTarget::Lease { sink, node, op }))
    }

    /// Sends the answer.
    pub fn send(mut self, result: Result<Answer, Reason>) {
        self.deliver(result, None);
    }

    /// Sends the answer, with the view under which the server gave it.
    pub(crate) fn send_with_view(
        mut self,
        result: Result<Answer, Reason>,
        view: Option<Arc<View>>,
    ) {
        self.deliver(result, view);
    }

    /// Reports that the operation was not sent and never will be: nothing has to be undone on the
    /// node.
    pub fn not_sent(mut self, reason: Reason) {
        match self.0.take() {
            Some(ReplyTarget::Lease { sink, node, op }) => sink.not_sent(node, op, reason),
            Some(ReplyTarget::Closure(f)) => f(Err(reason), None),
            None => {}
        }
    }

    fn deliver(&mut self, result: Result<Answer, Reason>, view: Option<Arc<View>>) {
        match self.0.take() {
            Some(ReplyTarget::Lease { sink, node, op }) => sink.answer(node, op, result, view),
            Some(ReplyTarget::Closure(f)) => f(result, view),
            None => {}
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.deliver(Err(Reason::Unknown), None);
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::protocol::ExtendedAnswer;

    #[test]
    fn reply_reports_exactly_once() {
        let (tx, rx) = mpsc::channel();
        let reply = || {
            let tx = tx.clone();
            Reply::from_fn(move |result| tx.send(result).unwrap())
        };

        drop(reply());

        assert_eq!(rx.try_recv(), Ok(Err(Reason::Unknown)));

        reply().send(Ok(Answer::Extended(ExtendedAnswer::UNAWAITED)));
        assert_eq!(rx.try_recv(), Ok(Ok(Answer::Extended(ExtendedAnswer::UNAWAITED))));
        assert!(rx.try_recv().is_err());
    }
}
