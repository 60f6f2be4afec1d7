//! Background tasks of a set, which carry out the plan of its enrolment.

use std::{sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::sync::oneshot;

use super::{AdminRequest, NodeReport, NodeSet, activate, add_check, copy, record::Change};
use crate::{
    error::Reason,
    membership::node_status::{ActivationOutcome, ActivationStep, EnrolPlan},
    node::redis::{
        permissions,
        scripts::{self, Enrolling},
        server_error::reason,
    },
    sync::atomic::Ordering,
    time::Clock,
};

/// Timeout for a node's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

impl NodeSet {
    /// Ends [`run`](Self::run).
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Runs the set's background tasks until it is closed.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            let EnrolPlan { activations, checks, copies, wake } = self.plan();
            for node in checks {
                self.check(node);
            }
            under_way.extend(activations.into_iter().map(|step| self.activate(step).boxed()));
            under_way.extend(copies.into_iter().map(|node| self.copy(node).boxed()));
            let wait = async {
                match wake {
                    Some(at) => self.clock.wait(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(()) = under_way.next() => {}
                () = self.changed.notified() => {}
                () = wait => {}
            }
        }
    }

    fn plan(&self) -> EnrolPlan {
        if self.is_unguarded() {
            return EnrolPlan::default();
        }
        self.state().enrolment.plan(self.clock.now())
    }

    /// Makes a node's session read the record again.
    pub(super) fn check(&self, node: usize) {
        let _ = self.members()[node].admin.send(AdminRequest::Check);
    }

    async fn activate(&self, step: ActivationStep) {
        let node = step.node;
        let outcome = activate::activate(self, step).await;
        self.state().enrolment.ended(node, outcome, self.clock.now());
        if !matches!(outcome, ActivationOutcome::Later(_)) {
            self.check(node);
        }
    }

    async fn copy(&self, node: usize) {
        let again = copy::copy(self, node).await;
        self.state().enrolment.copied(node, again.map(|pause| self.clock.now() + pause));
        if again.is_none() {
            self.check(node);
        }
    }

    /// Begins a call of a script with the key of a node's metadata; the caller adds the arguments.
    pub(super) fn call(&self, node: usize, script: Enrolling) -> Pipeline {
        let mut call = Pipeline::with_capacity(1);
        let text = script.text(self.traits(node).knows_flags);
        call.cmd("EVAL").arg(text).arg(1).arg(&self.keys.meta);
        call
    }

    /// Reads a node's record.
    pub(super) async fn read(&self, node: usize) -> Result<NodeReport, Reason> {
        let mut pipeline = Pipeline::with_capacity(8);
        let tag = self.latest_tag(node);
        add_check(&mut pipeline, &self.keys, &tag, &self.other_names(node));
        let mut answers = self.ask(node, pipeline).await?.into_iter();
        NodeReport::parse(&mut answers, &tag, self.settings.guards.restart)
    }

    /// Changes a node's record; returns false if the record has changed since it was read.
    pub(super) async fn change(&self, node: usize, change: &Change) -> Result<bool, Reason> {
        let mut call = Pipeline::with_capacity(1);
        call.cmd("EVAL").arg(scripts::CHANGE.text(self.traits(node).knows_flags));
        change.add_to(&mut call, &self.keys);
        match self.ask(node, call).await?.first() {
            Some(Value::Int(made)) => Ok(*made == 1),
            Some(Value::ServerError(error)) => Err(reason(error)),
            _ => {
                Err(Reason::Protocol("a change of the record did not answer with a number".into()))
            }
        }
    }

    /// Runs commands over a node's connection.
    pub(super) async fn ask(&self, node: usize, pipeline: Pipeline) -> Result<Vec<Value>, Reason> {
        let asked = self.ask_patiently(node, pipeline);
        tokio::time::timeout(ANSWER_TIMEOUT, asked).await.unwrap_or(Err(Reason::TimedOut))
    }

    /// Runs commands without a timeout, and so without a runtime.
    async fn ask_patiently(&self, node: usize, pipeline: Pipeline) -> Result<Vec<Value>, Reason> {
        let (sender, receiver) = oneshot::channel();
        let _ = self.members()[node].admin.send(AdminRequest::Run(pipeline, sender));
        receiver.await.unwrap_or(Err(Reason::Disconnected))
    }

    /// Tries each command on a connected node, and records the denied ones in its health.
    ///
    /// # Cancel safety
    ///
    /// Safe. The server may still try the commands, which have no lasting effect.
    pub(crate) async fn check_permissions(&self, node: usize) {
        let status = &self.members()[node].status;
        if status.down().is_some() {
            return;
        }
        let mut pipeline = Pipeline::with_capacity(2);
        permissions::ask(&mut pipeline, &self.settings, &self.keys);
        if let Ok(answers) = self.ask_patiently(node, pipeline).await
            && let Some(checked) = permissions::answer(answers)
        {
            status.denied(|denied| denied.checked = checked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{Scripted, report},
        *,
    };
    use crate::membership::node_status::ActivationPlan;

    #[tokio::test]
    async fn changed_nodes_are_checked() {
        let mut scripted = Scripted::new("p");
        let set = Arc::clone(&scripted.set);
        let tag = Arc::clone(report(&set, 'p', 2, 1).tag.text());

        for (claimed, is_checked) in [(0, true), (2, false)] {
            let plan = ActivationPlan::Bootstrap { from: Vec::new() };
            let tag = Arc::clone(&tag);
            let step = ActivationStep { node: 1, tag, waited: Duration::ZERO, plan };
            let answer = scripted.nodes[1].answer(vec![Value::Int(claimed)]);
            tokio::join!(set.activate(step), answer);
            assert_eq!(scripted.checked(), [false, is_checked, false], "{claimed}");
        }
    }

    #[tokio::test]
    async fn nodes_learn_owners_of_each_other() {
        let mut scripted = Scripted::new("p");
        let set = Arc::clone(&scripted.set);
        let running = tokio::spawn(Arc::clone(&set).run());
        for node in 0..2 {
            scripted.see(node, &report(&set, 'a', node as u128 + 1, 1), true);
        }
        tokio::task::yield_now().await;

        tokio::task::yield_now().await;

        assert_eq!(scripted.checked(), [true, true, false]);

        set.close();
        running.await.unwrap();
    }

    #[tokio::test]
    async fn closed_sets_run_no_tasks() {
        let Scripted { set, .. } = Scripted::new("p");
        let running = tokio::spawn(Arc::clone(&set).run());
        tokio::task::yield_now().await;
        assert!(!running.is_finished());
        set.close();
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_answer_in_time() {
        let Scripted { set, mut nodes, .. } = Scripted::new("p");
        let ask = || set.ask(0, Pipeline::new());
        let begun = tokio::time::Instant::now();
        assert_eq!(ask().await, Err(Reason::TimedOut));
        assert_eq!(begun.elapsed(), ANSWER_TIMEOUT);
        nodes.remove(0);
        assert_eq!(ask().await, Err(Reason::Disconnected));
    }
}
