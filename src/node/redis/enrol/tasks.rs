//! Background tasks of a set: activations, copies, take-overs.

use std::{sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::oneshot;

use super::{
    AdminRequest, NodeSet, activate,
    adopt::{start_moved, take_unused},
    copy,
    state::{Copying, Informing},
};
use crate::{
    error::Reason,
    membership::{
        node_status::{ActivationOutcome, ActivationStep},
        takeover::ForeignSet,
    },
    node::redis::{
        decode::{int, list, text},
        scripts::{self, Enrolling},
        server_traits,
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
            SetTaskEnd::Informed { result: Err(reason), .. } => {
                crate::log::debug!(node = %name, %reason, "not told who owns the other names yet");
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

    /// Runs a script that asks INFO: gives it what INFO says where the server refuses that in scripts.
    /// If the server has changed meanwhile, the answer is void.
    pub(super) async fn ask_with_info(
        &self,
        node: usize,
        mut call: Pipeline,
    ) -> Result<Vec<Value>, Reason> {
        let traits = self.traits(node);
        call.arg(traits.told_text());
        let Some(told) = &traits.told else { return self.ask(node, call).await };
        server_traits::add_identity(&mut call);
        let mut answers = self.ask(node, call).await?;
        let replication = answers.pop().unwrap_or(Value::Nil);
        let server = answers.pop().unwrap_or(Value::Nil);
        if told.is_same(&server, &replication) {
            return Ok(answers);
        }
        // Ends the connection.
        let _ = self.members()[node].admin.send(AdminRequest::Check);
        Err(server_traits::changed())
    }

    /// Runs commands over a node's connection.
    pub(super) async fn ask(&self, node: usize, pipeline: Pipeline) -> Result<Vec<Value>, Reason> {
        let (sender, receiver) = oneshot::channel();
        let _ = self.members()[node].admin.send(AdminRequest::Run(pipeline, sender));
        match tokio::time::timeout(ANSWER_TIMEOUT, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Reason::Disconnected),
            Err(_) => Err(Reason::TimedOut),
        }
    }
}

/// R14: informs a node of the owners of the other names, by index. It keeps those that are later
/// than its own.
pub(super) async fn inform(
    set: &NodeSet,
    node: usize,
    owners: &[Option<Incarnation>],
) -> Result<(), Reason> {
    let mut call = set.call(node, scripts::OWN);
    call.arg(&*set.layout.hash);
    for other in set.others(node) {
        let owner = owners[other].map(|owner| owner.to_string()).unwrap_or_default();
        call.arg(&**set.members()[other].status.name()).arg(owner);
    }
    let items = list(set.ask_with_info(node, call).await?)?;
    match items.first().and_then(int) {
        Some(1) => Ok(()),
        _ => Err(Reason::WrongTag { found: items.get(1).map(text).unwrap_or_default() }),
    }
}
