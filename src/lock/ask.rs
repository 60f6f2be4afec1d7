use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::mpsc;

use super::core::Core;
use crate::{
    error::Reason,
    node::{Answer, Op, Reply},
    time::Sleep,
};

/// What each node said.
pub(crate) type Answers = Vec<Result<Answer, Reason>>;

/// Asks every node, and waits for all answers, until the node timeout, or until what came is
/// enough.
///
/// Sent at the call, not at the first poll. Whoever drops it has lost interest in the answers; what
/// was asked is done all the same.
pub(crate) fn ask<F>(core: &Core, op: &Op, enough: F) -> Ask<F>
where
    F: Fn(&[Result<Answer, Reason>]) -> bool,
{
    ask_and_hear(core, op, enough, |_, _| {})
}

/// As [`ask`]; `hear` is told every answer, those that come after the future is ready or dropped
/// included, on the thread that they arrive on.
pub(crate) fn ask_and_hear<F, H>(core: &Core, op: &Op, enough: F, hear: H) -> Ask<F>
where
    F: Fn(&[Result<Answer, Reason>]) -> bool,
    H: Fn(usize, &Result<Answer, Reason>) + Clone + Send + 'static,
{
    let (sender, receiver) = mpsc::unbounded_channel();
    let answers = vec![Err(Reason::TimedOut); core.nodes.len()];
    for (node, to) in core.nodes.iter().enumerate() {
        let (sender, hear) = (sender.clone(), hear.clone());
        let reply = Reply::from_fn(move |answer| {
            hear(node, &answer);
            drop(sender.send((node, answer)));
        });
        to.send(op.clone(), reply);
    }
    let timeout = core.timers.sleep_until(core.clock().now() + core.settings.node_timeout);
    Ask { answers, receiver, timeout, enough }
}

/// See [`ask`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Ask<F> {
    answers: Answers,
    receiver: mpsc::UnboundedReceiver<(usize, Result<Answer, Reason>)>,
    timeout: Sleep,
    enough: F,
}

impl<F> Future for Ask<F>
where
    F: Fn(&[Result<Answer, Reason>]) -> bool + Unpin,
{
    type Output = Answers;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answers> {
        let this = &mut *self;
        // All that has come is looked at together: who said little may be followed by who knows.
        let mut has_heard = false;
        while let Poll::Ready(heard) = this.receiver.poll_recv(cx) {
            let Some((node, answer)) = heard else {
                return Poll::Ready(std::mem::take(&mut this.answers));
            };
            this.answers[node] = answer;
            has_heard = true;
        }
        let is_enough = has_heard && (this.enough)(&this.answers);
        if !is_enough && Pin::new(&mut this.timeout).poll(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut this.answers))
    }
}

/// Asks every node, and waits for no answer.
pub(crate) fn tell(core: &Core, op: &Op) {
    for node in &core.nodes {
        node.send(op.clone(), Reply::from_fn(|_| {}));
    }
}
