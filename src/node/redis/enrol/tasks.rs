//! Background tasks of a set: activations, copies, take-overs.

use std::{sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::oneshot;

use super::{
    AdminRequest, NodeReport, NodeSet, activate, add_check,
    adopt::{start_moved, take_unused},
    copy,
    record::{self, Change},
    state::{Copying, Informing},
};
use crate::{
    error::Reason,
    membership::{
        node_status::{ActivationOutcome, ActivationStep},
        takeover::ForeignSet,
    },
    node::redis::{
        permissions,
        scripts::{self, Enrolling},
        server_error::reason,
        status_detail::{VoteBar, VoteBarKind},
    },
    protocol::views::Incarnation,
    sync::atomic::Ordering,
    time::{Clock, Timestamp},
};

/// Timeout for a node's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const INFORM_RETRY: Duration = Duration::from_millis(200);

enum SetTaskEnd {
    Activation { node: usize, outcome: ActivationOutcome },
    Copy { node: usize, again: Option<Duration> },
    Informed { node: usize, result: Result<(), Reason> },
    Moved { node: usize, result: Result<(), Reason> },
}

enum SetTask {
    Activate(ActivationStep),
    Copy(usize),
    /// Inform a node of the owners of the other names, by index.
    Inform(usize, Box<[Option<Incarnation>]>),
    /// Move a node from an unused set.
    Take(usize, ForeignSet),
    /// Begin the probation of a moved node with this tag.
    StartMoved(usize, Arc<str>),
}

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
            let now = self.clock.now();
            let (work, wake) = self.due(now);
            for work in work {
                under_way.push(self.work(work));
            }
            let wait = async {
                match wake {
                    Some(at) => self.clock.wait(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(ended) = under_way.next() => self.ended(&ended),
                () = self.changed.notified() => {}
                () = wait => {}
            }
        }
    }

    fn due(&self, now: Timestamp) -> (Vec<SetTask>, Option<Timestamp>) {
        let mut state = self.state();
        let state = &mut *state;
        let mut work = Vec::new();
        let mut wake = None;
        let mut wake_at =
            |at: Timestamp| wake = Some(wake.map_or(at, |wake: Timestamp| wake.min(at)));
        if !self.is_unguarded() {
            work.extend(state.enrolment.due(now).into_iter().map(SetTask::Activate));
            if let Some(at) = state.enrolment.next_wake() {
                wake_at(at);
            }
            let taken = state.takeover.due(now);
            work.extend(taken.into_iter().map(|(node, foreign)| SetTask::Take(node, foreign)));
            let (moved, next) = state.startable(now);
            work.extend(moved.into_iter().map(|(node, tag)| SetTask::StartMoved(node, tag)));
            for at in next.into_iter().chain(state.takeover.next_wake()) {
                wake_at(at);
            }
            for (node, informing) in state.informing.iter_mut().enumerate() {
                let Informing::NotBefore(at) = *informing else { continue };
                let Some(owners) = state.enrolment.news_for(node) else { continue };
                if at <= now {
                    *informing = Informing::UnderWay;
                    work.push(SetTask::Inform(node, owners));
                } else {
                    wake_at(at);
                }
            }
        }
        for (node, copying) in state.copying.iter_mut().enumerate() {
            if let Copying::Wanted(at) = *copying {
                if at <= now {
                    *copying = Copying::UnderWay;
                    work.push(SetTask::Copy(node));
                } else {
                    wake_at(at);
                }
            }
        }
        (work, wake)
    }

    async fn work(&self, work: SetTask) -> SetTaskEnd {
        match work {
            SetTask::Activate(step) => {
                let node = step.node;
                SetTaskEnd::Activation { node, outcome: activate::activate(self, step).await }
            }
            SetTask::Copy(node) => SetTaskEnd::Copy { node, again: copy::copy(self, node).await },
            SetTask::Take(node, foreign) => {
                SetTaskEnd::Moved { node, result: take_unused(self, node, &foreign).await }
            }
            SetTask::StartMoved(node, tag) => {
                SetTaskEnd::Moved { node, result: start_moved(self, node, &tag).await }
            }
            SetTask::Inform(node, owners) => {
                SetTaskEnd::Informed { node, result: inform(self, node, &owners).await }
            }
        }
    }

    fn ended(&self, ended: &SetTaskEnd) {
        let now = self.clock.now();
        let mut state = self.state();
        let (node, is_changed) = match ended {
            SetTaskEnd::Activation { node, outcome } => {
                state.enrolment.ended(*node, *outcome, now);
                (*node, !matches!(outcome, ActivationOutcome::Later(_)))
            }
            SetTaskEnd::Copy { node, again } => {
                state.copying[*node] = match again {
                    Some(pause) => Copying::Wanted(now + *pause),
                    None => Copying::Done,
                };
                (*node, again.is_none())
            }
            SetTaskEnd::Moved { node, .. } => (*node, true),
            // The health check now shows what it knows.
            SetTaskEnd::Informed { node, .. } => {
                state.informing[*node] = Informing::NotBefore(now + INFORM_RETRY);
                (*node, true)
            }
        };
        drop(state);
        let name = self.members()[node].status.name();
        match ended {
            SetTaskEnd::Informed { node, result: Err(reason) } => {
                crate::log::debug!(node = %name, %reason, "not told who owns the other names yet");
                // Its votes count with those of no node that was told.
                let status = &self.members()[*node].status;
                status.queue_bar(VoteBarKind::Names, Some(VoteBar::Reason(Reason::NamesDiffer)));
                status.emit();
            }
            SetTaskEnd::Moved { result: Err(reason), .. } => {
                crate::log::debug!(node = %name, %reason, "not moved yet");
            }
            _ => {}
        }
        if is_changed {
            let _ = self.members()[node].admin.send(AdminRequest::Check);
        }
    }

    /// Begins a call of a script with the key of a node's metadata; the caller adds arguments.
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

    /// Changes a node's record; returns false if it is not any more as it was read.
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

    /// The same without a timeout, and so without a runtime.
    async fn ask_patiently(&self, node: usize, pipeline: Pipeline) -> Result<Vec<Value>, Reason> {
        let (sender, receiver) = oneshot::channel();
        let _ = self.members()[node].admin.send(AdminRequest::Run(pipeline, sender));
        receiver.await.unwrap_or(Err(Reason::Disconnected))
    }

    /// Tries each command on a node that is connected, and records in its health which are denied.
    ///
    /// # Cancel safety
    ///
    /// Safe. The server may still try the commands, which change nothing that stays.
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

/// R14: informs a node of the owners of the other names, by index. It keeps those that are later
/// than its own. If its record is not the one that was read, the next health check says what it is.
pub(super) async fn inform(
    set: &NodeSet,
    node: usize,
    owners: &[Option<Incarnation>],
) -> Result<(), Reason> {
    let owners: Vec<_> = set.others(node).into_iter().map(|other| owners[other]).collect();
    let change = {
        let state = set.state();
        let report = state.reports[node].as_ref();
        report.and_then(|report| record::owners(report, &set.other_names(node), &owners))
    };
    match change {
        Some(change) => set.change(node, &change).await.map(drop),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{FakeServer, Scripted, report, served},
        *,
    };
    use crate::node::redis::enrol::NodeReport;

    /// What is due, as text, and in how many ms the next is.
    fn due(scripted: &Scripted) -> (Vec<String>, Option<u128>) {
        let now = scripted.clock.now();
        let (work, wake) = scripted.set.due(now);
        let shown = |work| match work {
            SetTask::Copy(node) => format!("copy {node}"),
            SetTask::Inform(node, owners) => {
                format!("inform {node} of {}", owners.iter().flatten().count())
            }
            SetTask::Activate(step) => format!("activate {}", step.node),
            SetTask::Take(node, _) => format!("take {node}"),
            SetTask::StartMoved(node, _) => format!("start {node}"),
        };
        let wake = wake.map(|at| at.saturating_duration_since(now).as_millis());
        (work.into_iter().map(shown).collect(), wake)
    }

    #[test]
    fn tasks_begin_when_they_are_due() {
        let mut scripted = Scripted::new("p");
        let set = Arc::clone(&scripted.set);
        let copying = NodeReport { copying: true, ..report(&set, 'a', 1, 1) };
        scripted.see(0, &copying, true);
        assert_eq!(due(&scripted), (vec!["copy 0".into()], None));
        assert_eq!(due(&scripted), (vec![], None), "under way");
        scripted.checked();
        set.ended(&SetTaskEnd::Copy { node: 0, again: Some(Duration::from_secs(1)) });
        assert_eq!(scripted.checked(), [false; 3]);
        assert_eq!(due(&scripted), (vec![], Some(1_000)));
        scripted.clock.advance(Duration::from_secs(1));
        assert_eq!(due(&scripted), (vec!["copy 0".into()], None));
        set.ended(&SetTaskEnd::Copy { node: 0, again: None });
        assert_eq!(scripted.checked(), [true, false, false]);
        assert_eq!(due(&scripted), (vec![], None));
    }

    #[test]
    fn nodes_are_informed_of_owners() {
        let mut scripted = Scripted::new("p");
        let set = Arc::clone(&scripted.set);
        for node in 0..2 {
            scripted.see(node, &report(&set, 'a', node as u128 + 1, 1), true);
        }
        let both = || vec!["inform 0 of 2".into(), "inform 1 of 2".into()];
        assert_eq!(due(&scripted), (both(), None));
        assert_eq!(due(&scripted), (vec![], None), "under way");
        scripted.checked();
        let failed = || Err(Reason::TimedOut);
        (0..2).for_each(|node| set.ended(&SetTaskEnd::Informed { node, result: failed() }));
        assert_eq!(scripted.checked(), [true, true, false]);
        assert_eq!(due(&scripted), (vec![], Some(200)));
        let differ = Some(Reason::NamesDiffer);
        assert_eq!(scripted.barred(), [differ.clone(), differ, None], "their votes don't count");
        scripted.clock.advance(INFORM_RETRY);
        assert_eq!(due(&scripted), (both(), None));
        // Those that were told are in order, and told what is new at once.
        (0..2).for_each(|node| set.ended(&SetTaskEnd::Informed { node, result: Ok(()) }));
        let incarnation = |run| report(&set, 'a', run, 1).tag.incarnation();
        let told = |run, other| NodeReport {
            owners: vec![incarnation(other), None],
            ..report(&set, 'a', run, 1)
        };
        scripted.see(0, &told(1, 2), true);
        scripted.see(1, &told(2, 1), true);
        assert_eq!(due(&scripted), (vec![], None));
        assert_eq!(scripted.barred(), [const { None }; 3]);
        scripted.see(2, &report(&set, 'a', 3, 1), true);
        assert_eq!(due(&scripted).0, ["inform 0 of 3", "inform 1 of 3", "inform 2 of 3"]);
    }

    #[test]
    fn changed_nodes_are_checked() {
        let mut scripted = Scripted::new("p");
        let set = Arc::clone(&scripted.set);
        let later = ActivationOutcome::Later(Duration::from_secs(1));
        for (outcome, is_checked) in [(ActivationOutcome::Done, true), (later, false)] {
            set.ended(&SetTaskEnd::Activation { node: 1, outcome });
            assert_eq!(scripted.checked(), [false, is_checked, false], "{outcome:?}");
        }
        set.ended(&SetTaskEnd::Moved { node: 2, result: Ok(()) });
        assert_eq!(scripted.checked(), [false, false, true]);
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

    #[tokio::test]
    async fn owners_of_names_are_told() {
        let mut scripted = Scripted::new("p");
        let set = Arc::clone(&scripted.set);
        let seen = report(&set, 'a', 2, 1);
        scripted.see(1, &seen, true);
        let owner = Incarnation { epoch: 1, id: 2, nonce: 3 };
        let owners = [None, None, Some(owner)];
        let tag = seen.tag.text();
        let nodes = &mut scripted.nodes[1..2];
        let mut servers = [FakeServer::new(2, &[("tag", tag), ("max_ttl", "10000")])];
        assert_eq!(served(nodes, &mut servers, inform(&set, 1, &owners)).await, Ok(()));
        assert_eq!(servers[0].field("owner:c:1/0"), owner.to_string());
        let changed = servers[0].field("tag").to_owned();
        assert!(changed != **tag && changed[..77] == tag[..77], "{changed}");
        // It is another one by now: nothing is stored.
        assert_eq!(served(nodes, &mut servers, inform(&set, 1, &owners)).await, Ok(()));
        assert_eq!(servers[0].changes, 1);
        servers[0].is_down = true;
        let told = served(nodes, &mut servers, inform(&set, 1, &owners)).await;
        assert_eq!(told, Err(Reason::Disconnected));
    }
}
