//! Tasks that a single client runs on behalf of all: learning before an activation, copying
//! records.
//!
//! A lease on a task only saves load: running a task twice has the same result.

use std::{sync::Arc, time::Duration};

use super::NodeSet;
use crate::{
    error::Reason,
    node::redis::{
        scripts,
        status_detail::Copied,
        values::{int, list},
    },
};

/// Duration of a lease after its last renewal. `lease_task.lua` grants no longer ones.
const LEASE: Duration = Duration::from_secs(4);
/// Interval between renewals.
const RENEWAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(super) enum SharedTask {
    Learn,
    Copy,
}

impl SharedTask {
    /// Returns the fields of the meta hash that name the task and its lease.
    const fn fields(self) -> (&'static str, &'static str) {
        match self {
            Self::Learn => ("tag", "learner"),
            Self::Copy => ("once", "copier"),
        }
    }
}

pub(super) enum TaskLeaseOutcome {
    Ours,
    HeldByAnother(Copied),
    /// The task is finished.
    Over,
}

/// A client's lease on a task of a node.
pub(super) struct TaskLease {
    node: usize,
    task: SharedTask,
    /// The value of the field that names the task.
    named: Arc<str>,
    number: String,
}

impl TaskLease {
    pub(super) fn new(task: SharedTask, node: usize, named: Arc<str>) -> Self {
        Self { node, task, named, number: format!("{:016x}", crate::random::number()) }
    }

    /// Acquires or renews the lease.
    pub(super) async fn acquire(&self, set: &NodeSet) -> Result<TaskLeaseOutcome, Reason> {
        self.store(set, LEASE).await
    }

    /// Runs a task and renews its lease. Drops the task if the lease is lost.
    pub(super) async fn hold<T>(&self, set: &NodeSet, task: impl Future<Output = T>) -> Option<T> {
        let lost = async {
            loop {
                tokio::time::sleep(RENEWAL).await;
                // If there is no answer, the lease may still be valid.
                if !matches!(self.acquire(set).await, Ok(TaskLeaseOutcome::Ours) | Err(_)) {
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

    /// Releases the lease at once.
    pub(super) async fn release(&self, set: &NodeSet) {
        let _ = self.store(set, Duration::ZERO).await;
    }

    async fn store(&self, set: &NodeSet, time: Duration) -> Result<TaskLeaseOutcome, Reason> {
        let (names, lease) = self.task.fields();
        let copied = set.members()[self.node].status.copied();
        let mut call = set.call(self.node, scripts::LEASE_TASK);
        call.arg(names).arg(&*self.named).arg(lease).arg(&self.number);
        call.arg(time.as_micros().to_string()).arg(copied.records).arg(copied.bytes);
        let items = list(set.ask(self.node, call).await?)?;
        let number = |i: usize| items.get(i).and_then(int);
        Ok(match number(0) {
            Some(1) => TaskLeaseOutcome::Ours,
            Some(2) => TaskLeaseOutcome::HeldByAnother(Copied {
                records: number(1).unwrap_or(0),
                bytes: number(2).unwrap_or(0),
            }),
            _ => TaskLeaseOutcome::Over,
        })
    }
}

#[cfg(test)]
mod tests {
    use ::redis::Value;

    use super::{super::tests::Scripted, *};

    fn lease(node: usize) -> TaskLease {
        TaskLease::new(SharedTask::Copy, node, "copying nonce".into())
    }

    #[tokio::test]
    async fn leases_name_their_task() {
        let Scripted { set, mut nodes, .. } = Scripted::new("p");
        let lease = lease(1);
        let by_another = vec![Value::Int(2), Value::Int(7), Value::Int(70)];

        let (acquired, sent) = tokio::join!(lease.acquire(&set), nodes[1].answer(by_another));

        assert!(
            matches!(acquired, Ok(TaskLeaseOutcome::HeldByAnother(copied)) if (copied.records, copied.bytes) == (7, 70))
        );
        let ["1", "p:meta", "once", "copying nonce", "copier", number, "4000000", "0", "0"] =
            sent.iter().map(|arg| &**arg).collect::<Vec<_>>()[..]
        else {
            panic!("{sent:?}")
        };

        // A released lease ends at once.
        let ((), sent) = tokio::join!(lease.release(&set), nodes[1].answer(vec![Value::Int(1)]));
        assert_eq!((&*sent[5], &*sent[6]), (number, "0"));

        let (acquired, _) = tokio::join!(lease.acquire(&set), nodes[1].answer(vec![Value::Int(0)]));
        assert!(matches!(acquired, Ok(TaskLeaseOutcome::Over)));
    }

    #[tokio::test(start_paused = true)]
    async fn lost_leases_end_the_task() {
        let Scripted { set, mut nodes, .. } = Scripted::new("p");
        let lease = lease(0);
        let answering = async {
            nodes[0].answer(vec![Value::Int(1)]).await;
            // If there is no answer, the lease may still be valid.
            nodes[0].fail().await;
            nodes[0].answer(vec![Value::Int(2)]).await;
        };

        let (held, ()) = tokio::join!(lease.hold(&set, std::future::pending::<()>()), answering);

        assert_eq!(held, None);
        assert_eq!(lease.hold(&set, async { 7 }).await, Some(7));
    }
}
