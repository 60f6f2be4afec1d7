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
    node::Reply,
    protocol::{
        Answer, Op,
        names::{self, Member, View},
    },
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
    let is_forked = core.is_forked();
    let unheard = if is_forked { core.not_in_fork() } else { Reason::TimedOut };
    let answers = vec![Err(unheard); core.nodes.len()];
    for (node, to) in core.nodes.iter().enumerate().filter(|_| !is_forked) {
        let (sender, hear) = (sender.clone(), hear.clone());
        let reply = Reply::from_fn_with_view(move |answer, view| {
            hear(node, &answer);
            drop(sender.send((node, answer, view)));
        });
        to.send(op.clone(), reply);
    }
    let timeout = core.timers.sleep_until(core.clock().now() + core.settings.node_timeout);
    let views = vec![None; answers.len()];
    Ask { answers, views, receiver, timeout, enough }
}

/// See [`ask`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Ask<F> {
    answers: Answers,
    /// Under which view each answer was made.
    views: Vec<Option<Arc<View>>>,
    receiver: mpsc::UnboundedReceiver<Heard>,
    timeout: Sleep,
    enough: F,
}

type Heard = (usize, Result<Answer, Reason>, Option<Arc<View>>);

/// R14: the answers that don't count with most of the others, as their servers don't name each
/// other.
fn strangers(answers: &[Result<Answer, Reason>], views: &[Option<Arc<View>>]) -> Vec<usize> {
    let told = (0..answers.len()).filter(|&node| answers[node].is_ok());
    let told: Vec<Member<'_>> = told.map(|node| (node, views[node].as_ref())).collect();
    let group = names::largest_group(&told);
    let is_stranger = |node: &usize| !group.iter().any(|(member, _)| member == node);
    told.iter().map(|(node, _)| *node).filter(is_stranger).collect()
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
            let Some((node, answer, view)) = heard else {
                return Poll::Ready(this.take());
            };
            (this.answers[node], this.views[node]) = (answer, view);
            has_heard = true;
        }
        let is_enough = has_heard && this.is_enough();
        if !is_enough && Pin::new(&mut this.timeout).poll(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(this.take())
    }
}

impl<F> Ask<F> {
    /// What came; what does not count with most of it is replaced by the reason.
    fn take(&mut self) -> Answers {
        let mut answers = std::mem::take(&mut self.answers);
        for node in strangers(&answers, &self.views) {
            answers[node] = Err(Reason::NamesDiffer);
        }
        answers
    }
}

impl<F> Ask<F>
where
    F: Fn(&[Result<Answer, Reason>]) -> bool,
{
    fn is_enough(&self) -> bool {
        let strangers = strangers(&self.answers, &self.views);
        if strangers.is_empty() {
            return (self.enough)(&self.answers);
        }
        let mut answers = self.answers.clone();
        for node in strangers {
            answers[node] = Err(Reason::NamesDiffer);
        }
        (self.enough)(&answers)
    }
}

/// Asks every node, and waits for no answer.
pub(crate) fn tell(core: &Core, op: &Op) {
    for node in &core.nodes {
        node.send(op.clone(), Reply::from_fn(|_| {}));
    }
}
