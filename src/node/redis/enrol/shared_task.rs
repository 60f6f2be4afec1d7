//! Tasks of a single client on behalf of all: learning before an activation, copying records.
//!
//! A claim only saves load: a task that runs twice has the same result.

use std::{sync::Arc, time::Duration};

use super::NodeSet;
use crate::{
    error::Reason,
    node::redis::{
        decode::{int, list},
        scripts,
        status_detail::Copied,
    },
};

/// Time from the last renewal to the end of a claim; `claim_task.lua` takes none for longer.
const CLAIM: Duration = Duration::from_secs(4);
/// Interval between renewals.
const RENEWAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(super) enum SharedTask {
    Learn,
    Copy,
}

impl SharedTask {
    /// Returns the fields of the meta hash that name the task and its claim.
    const fn fields(self) -> (&'static str, &'static str) {
        match self {
            Self::Learn => ("tag", "learner"),
            Self::Copy => ("once", "copier"),
        }
    }
}

pub(super) enum TaskClaimed {
    Ours,
    ByAnother(Copied),
    /// The task is done.
    Over,
}

/// A client's claim to a task on a node.
pub(super) struct TaskClaim {
    node: usize,
    task: SharedTask,
    /// The value of the field that names the task.
    named: Arc<str>,
    number: String,
}

impl TaskClaim {
    pub(super) fn new(task: SharedTask, node: usize, named: Arc<str>) -> Self {
        Self { node, task, named, number: format!("{:016x}", crate::random::number()) }
    }

    /// Takes or renews the claim.
    pub(super) async fn take(&self, set: &NodeSet) -> Result<TaskClaimed, Reason> {
        self.store(set, CLAIM).await
    }

    /// Runs a task and renews its claim. Drops the task if the claim is lost.
    pub(super) async fn hold<T>(&self, set: &NodeSet, task: impl Future<Output = T>) -> Option<T> {
        let lost = async {
            loop {
                tokio::time::sleep(RENEWAL).await;
                // Without an answer, the claim may still last.
                if !matches!(self.take(set).await, Ok(TaskClaimed::Ours) | Err(_)) {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            ended = task => Some(ended),
            () = lost => None,
        }
    }

    /// Releases the claim at once.
    pub(super) async fn give_back(&self, set: &NodeSet) {
        let _ = self.store(set, Duration::ZERO).await;
    }

    async fn store(&self, set: &NodeSet, time: Duration) -> Result<TaskClaimed, Reason> {
        let (names, claim) = self.task.fields();
        let copied = set.members()[self.node].status.copied();
        let mut call = set.call(self.node, scripts::CLAIM_TASK);
        call.arg(names).arg(&*self.named).arg(claim).arg(&self.number);
        call.arg(time.as_micros().to_string()).arg(copied.records).arg(copied.bytes);
        let items = list(set.ask(self.node, call).await?)?;
        let number = |i: usize| items.get(i).and_then(int);
        Ok(match number(0) {
            Some(1) => TaskClaimed::Ours,
            Some(2) => TaskClaimed::ByAnother(Copied {
                records: number(1).unwrap_or(0),
                bytes: number(2).unwrap_or(0),
            }),
            _ => TaskClaimed::Over,
        })
    }
}

#[cfg(test)]
mod tests {
    use ::redis::Value;

    use super::{super::tests::Scripted, *};

    fn claim(node: usize) -> TaskClaim {
        TaskClaim::new(SharedTask::Copy, node, "copying nonce".into())
    }

    #[tokio::test]
    async fn claims_name_their_task() {
        let Scripted { set, mut nodes, .. } = Scripted::new("p");
        let claim = claim(1);
        let by_another = vec![Value::Int(2), Value::Int(7), Value::Int(70)];
        let (taken, sent) = tokio::join!(claim.take(&set), nodes[1].answer(by_another));
        assert!(
            matches!(taken, Ok(TaskClaimed::ByAnother(copied)) if (copied.records, copied.bytes) == (7, 70))
        );
        let ["1", "p:meta", "once", "copying nonce", "copier", number, "4000000", "0", "0"] =
            sent.iter().map(|arg| &**arg).collect::<Vec<_>>()[..]
        else {
            panic!("{sent:?}")
        };
        // Given back, it ends at once.
        let ((), sent) = tokio::join!(claim.give_back(&set), nodes[1].answer(vec![Value::Int(1)]));
        assert_eq!((&*sent[5], &*sent[6]), (number, "0"));
        let (taken, _) = tokio::join!(claim.take(&set), nodes[1].answer(vec![Value::Int(0)]));
        assert!(matches!(taken, Ok(TaskClaimed::Over)));
    }

    #[tokio::test(start_paused = true)]
    async fn lost_claims_end_the_task() {
        let Scripted { set, mut nodes, .. } = Scripted::new("p");
        let claim = claim(0);
        let answering = async {
            nodes[0].answer(vec![Value::Int(1)]).await;
            // Without an answer, the claim may still last.
            nodes[0].fail().await;
            nodes[0].answer(vec![Value::Int(2)]).await;
        };
        let (held, ()) = tokio::join!(claim.hold(&set, std::future::pending::<()>()), answering);
        assert_eq!(held, None);
        assert_eq!(claim.hold(&set, async { 7 }).await, Some(7));
    }
}
