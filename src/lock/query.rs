//! Queries to all nodes, and operations that need no answer.

use std::{
    borrow::Cow,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::{self, Either};
use tokio::sync::{mpsc, oneshot};

use super::client::Client;
use crate::{
    error::{LockError, Reason, VoteOutcome, Votes},
    node::Reply,
    protocol::{
        Answer, Op,
        views::{self, View},
    },
    time::Sleep,
};

/// The answer of each node.
pub(crate) type QueryAnswers = Vec<Result<Answer, Reason>>;

/// Sends an operation to every node, and waits for all answers, until the node timeout, or until
/// the answers so far are `enough`.
///
/// It is sent at the call, not at the first poll. Dropping the future does not undo it.
pub(crate) fn query<F>(client: &Client, op: &Op, enough: F) -> NodeQuery<F>
where
    F: Fn(&[Result<Answer, Reason>]) -> bool,
{
    query_each(client, op, enough, |_, _| {})
}

/// Sends a [`query`]. Calls `on_answer` with every answer, on the thread that receives it, also
/// after the future is ready or dropped.
pub(crate) fn query_each<F, H>(client: &Client, op: &Op, enough: F, on_answer: H) -> NodeQuery<F>
where
    F: Fn(&[Result<Answer, Reason>]) -> bool,
    H: Fn(usize, &Result<Answer, Reason>) + Clone + Send + 'static,
{
    let (sender, receiver) = mpsc::unbounded_channel();
    let answers = vec![Err(Reason::TimedOut); client.nodes.len()];
    for (node, to) in client.nodes.iter().enumerate() {
        let (sender, on_answer) = (sender.clone(), on_answer.clone());
        let reply = Reply::from_fn_with_view(move |answer, view| {
            on_answer(node, &answer);
            drop(sender.send((node, answer, view)));
        });
        to.send(op.clone(), reply);
    }
    let timeout = client.sleep(client.settings.node_timeout);
    let views = vec![None; answers.len()];
    NodeQuery { answers, views, receiver, timeout, enough }
}

/// Sends an operation to one node, and waits for its answer until the node timeout.
pub(crate) async fn ask(client: &Client, node: usize, op: Op) -> Result<Answer, Reason> {
    let (sender, receiver) = oneshot::channel();
    client.nodes[node].send(op, Reply::from_fn(move |answer| drop(sender.send(answer))));
    match future::select(receiver, client.sleep(client.settings.node_timeout)).await {
        Either::Left((answer, _)) => answer.unwrap_or(Err(Reason::Unknown)),
        Either::Right(_) => Err(Reason::TimedOut),
    }
}

impl Client {
    /// Returns the error of a query that too few nodes answered.
    pub(crate) fn no_quorum(&self, answers: &[Result<Answer, Reason>]) -> LockError {
        LockError::NoQuorum { votes: votes(self, answers) }
    }
}

/// Returns the votes of a query that too few nodes answered.
pub(crate) fn votes(client: &Client, answers: &[Result<Answer, Reason>]) -> Votes {
    let vote = |answer: &Result<Answer, Reason>| match answer {
        Ok(_) => VoteOutcome::Granted,
        Err(reason) => VoteOutcome::NotCounted(reason.clone()),
    };
    client.votes(answers.iter().map(vote).collect())
}

/// The future of a [`query`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub(crate) struct NodeQuery<F> {
    answers: QueryAnswers,
    /// The view under which each answer was made.
    views: Vec<Option<Arc<View>>>,
    receiver: mpsc::UnboundedReceiver<ReceivedAnswer>,
    timeout: Sleep,
    enough: F,
}

type ReceivedAnswer = (usize, Result<Answer, Reason>, Option<Arc<View>>);

impl<F> Future for NodeQuery<F>
where
    F: Fn(&[Result<Answer, Reason>]) -> bool + Unpin,
{
    type Output = QueryAnswers;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<QueryAnswers> {
        let this = &mut *self;
        let mut has_received = false;
        while let Poll::Ready(received) = this.receiver.poll_recv(cx) {
            let Some((node, answer, view)) = received else {
                return Poll::Ready(this.counted().into_owned());
            };
            (this.answers[node], this.views[node]) = (answer, view);
            has_received = true;
        }
        // Checked once a poll, because a later answer of the same poll may decide more.
        let is_enough = has_received && (this.enough)(&this.counted());
        if !is_enough && Pin::new(&mut this.timeout).poll(cx).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(this.counted().into_owned())
    }
}

impl<F> NodeQuery<F> {
    /// R14: returns the answers. Answers of servers outside the largest group under one view do not
    /// count.
    fn counted(&self) -> Cow<'_, [Result<Answer, Reason>]> {
        let mut counted = Cow::Borrowed(&self.answers[..]);
        let answered = self.answers.iter().zip(&self.views).filter(|(answer, _)| answer.is_ok());
        let (_, view) = views::largest_group(answered.map(|(_, view)| view.as_ref()));
        for (node, other) in self.views.iter().enumerate() {
            if self.answers[node].is_ok() && !views::agree(view, other.as_ref()) {
                counted.to_mut()[node] = Err(Reason::NamesDiffer);
            }
        }
        counted
    }
}
