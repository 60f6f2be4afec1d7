use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
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
    let (sender, receiver) = mpsc::unbounded_channel();
    let answers = vec![Err(Reason::TimedOut); core.nodes.len()];
    for (node, to) in core.nodes.iter().enumerate() {
        let sender = sender.clone();
        to.send(op.clone(), Reply::from_fn(move |answer| drop(sender.send((node, answer)))));
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
        loop {
            match this.receiver.poll_recv(cx) {
                Poll::Ready(Some((node, answer))) => {
                    this.answers[node] = answer;
                    if !(this.enough)(&this.answers) {
                        continue;
                    }
                }
                Poll::Pending if Pin::new(&mut this.timeout).poll(cx).is_pending() => {
                    return Poll::Pending;
                }
                Poll::Ready(None) | Poll::Pending => {}
            }
            return Poll::Ready(std::mem::take(&mut this.answers));
        }
    }
}

/// Asks every node, and waits for no answer.
#[allow(dead_code, reason = "for what is sent when a future is dropped")]
pub(crate) fn tell(core: &Arc<Core>, op: &Op) {
    for node in &core.nodes {
        node.send(op.clone(), Reply::from_fn(|_| {}));
    }
}
