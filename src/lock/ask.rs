use tokio::sync::mpsc;

use super::core::Core;
use crate::{
    error::Reason,
    node::{Answer, Op, Reply},
};

/// What each node said.
pub(super) type Answers = Vec<Result<Answer, Reason>>;

/// Asks every node, and waits for all answers, until the node timeout, or until what came is
/// enough.
pub(super) async fn ask(core: &Core, op: &Op, enough: impl Fn(&Answers) -> bool) -> Answers {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut answers: Answers = vec![Err(Reason::TimedOut); core.nodes.len()];
    for (node, to) in core.nodes.iter().enumerate() {
        let sender = sender.clone();
        // Who asked may have lost interest.
        to.send(op.clone(), Reply::from_fn(move |answer| drop(sender.send((node, answer)))));
    }
    drop(sender);
    let timeout = core.timers.sleep_until(core.clock().now() + core.settings.node_timeout);
    tokio::pin!(timeout);
    loop {
        tokio::select! {
            biased;
            answer = receiver.recv() => match answer {
                Some((node, answer)) => {
                    answers[node] = answer;
                    if enough(&answers) {
                        return answers;
                    }
                }
                None => return answers,
            },
            () = &mut timeout => return answers,
        }
    }
}
