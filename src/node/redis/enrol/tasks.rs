//! Background tasks of a set, which carry out the plan of its enrolment.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};

use super::{NodeSet, activate, copy};
use crate::{
    membership::node_status::{ActivationOutcome, ActivationStep, EnrolPlan},
    sync::atomic::Ordering,
    time::Clock,
};

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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::redis::Value;

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
}
