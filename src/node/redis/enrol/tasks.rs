//! What goes on beside the operations: probations end, records are taken over.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ::redis::{Pipeline, Value};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::oneshot;

use super::{
    activate, copy, inform,
    set::{Admin, Copying, Informing, NodeSet},
    takeover,
};
use crate::{
    error::Reason,
    membership::{
        enrol::{Outcome, Step},
        takeover::Foreign,
    },
    protocol::names::Incarnation,
    time::{Clock, Timestamp},
};

/// A node that has not answered by then is tried again later.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const INFORM_RETRY: Duration = Duration::from_millis(200);

enum Ended {
    Activation { node: usize, outcome: Outcome },
    Copy { node: usize, again: Option<Duration> },
    Informed { node: usize, result: Result<(), Reason> },
    Moved { node: usize, result: Result<(), Reason> },
}

enum Work {
    Activate(Step),
    Copy(usize),
    /// Tell a node who owns the other names, by index.
    Inform(usize, Box<[Option<Incarnation>]>),
    /// Take over a node whose set nobody uses any more.
    Take(usize, Foreign),
    /// Begin the probation of a node that was moved; its tag.
    StartMoved(usize, Arc<str>),
}

impl NodeSet {
    /// Lets [`run`](Self::run) end.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Ends probations and takes over records, until it is closed.
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
                () = self.changed.notified() => {}
                () = wait => {}
                Some(ended) = under_way.next() => self.ended(&ended),
            }
        }
    }

    fn due(&self, now: Timestamp) -> (Vec<Work>, Option<Timestamp>) {
        let mut state = self.state();
        let state = &mut *state;
        let mut work = Vec::new();
        let mut wake = None;
        let mut wake_at =
            |at: Timestamp| wake = Some(wake.map_or(at, |wake: Timestamp| wake.min(at)));
        if !self.is_unguarded() {
            work.extend(state.enrolment.due(now).into_iter().map(Work::Activate));
            if let Some(at) = state.enrolment.next_wake() {
                wake_at(at);
            }
            let taken = state.takeover.due(now);
            work.extend(taken.into_iter().map(|(node, foreign)| Work::Take(node, foreign)));
            let (moved, next) = state.startable(now);
            work.extend(moved.into_iter().map(|(node, tag)| Work::StartMoved(node, tag)));
            for at in next.into_iter().chain(state.takeover.next_wake()) {
                wake_at(at);
            }
            for (node, informing) in state.informing.iter_mut().enumerate() {
                let Informing::NotBefore(at) = *informing else { continue };
                let Some(owners) = state.enrolment.news_for(node) else { continue };
                if at <= now {
                    *informing = Informing::UnderWay;
                    work.push(Work::Inform(node, owners));
                } else {
                    wake_at(at);
                }
            }
        }
        for (node, copying) in state.copying.iter_mut().enumerate() {
            if let Copying::Wanted(at) = *copying {
                if at <= now {
                    *copying = Copying::UnderWay;
                    work.push(Work::Copy(node));
                } else {
                    wake_at(at);
                }
            }
        }
        (work, wake)
    }

    async fn work(&self, work: Work) -> Ended {
        match work {
            Work::Activate(step) => {
                let node = step.node;
                Ended::Activation { node, outcome: activate::activate(self, step).await }
            }
            Work::Copy(node) => Ended::Copy { node, again: copy::copy(self, node).await },
            Work::Take(node, foreign) => {
                Ended::Moved { node, result: takeover::take_unused(self, node, &foreign).await }
            }
            Work::StartMoved(node, tag) => {
                Ended::Moved { node, result: takeover::start_moved(self, node, &tag).await }
            }
            Work::Inform(node, owners) => {
                Ended::Informed { node, result: inform::inform(self, node, &owners).await }
            }
        }
    }

    fn ended(&self, ended: &Ended) {
        let now = self.clock.now();
        let mut state = self.state();
        let (node, is_changed) = match ended {
            Ended::Activation { node, outcome } => {
                state.enrolment.ended(*node, *outcome, now);
                (*node, !matches!(outcome, Outcome::Later(_)))
            }
            Ended::Copy { node, again } => {
                state.copying[*node] = match again {
                    Some(pause) => Copying::Wanted(now + *pause),
                    None => Copying::Done,
                };
                (*node, again.is_none())
            }
            Ended::Moved { node, .. } => (*node, true),
            // It is looked at now: what it knows by then is not told it again.
            Ended::Informed { node, .. } => {
                state.informing[*node] = Informing::NotBefore(now + INFORM_RETRY);
                (*node, true)
            }
        };
        drop(state);
        let name = self.members()[node].status.name();
        match ended {
            Ended::Informed { result: Err(reason), .. } => {
                crate::log::debug!(node = %name, %reason, "not told who owns the other names yet");
            }
            Ended::Moved { result: Err(reason), .. } => {
                crate::log::debug!(node = %name, %reason, "not moved yet");
            }
            _ => {}
        }
        if is_changed {
            let _ = self.members()[node].admin.send(Admin::Check);
        }
    }

    /// Runs commands on a node, beside its operations.
    pub(super) async fn ask(&self, node: usize, pipeline: Pipeline) -> Result<Vec<Value>, Reason> {
        let (sender, receiver) = oneshot::channel();
        let _ = self.members()[node].admin.send(Admin::Run(pipeline, sender));
        match tokio::time::timeout(ANSWER_TIMEOUT, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Reason::Disconnected),
            Err(_) => Err(Reason::TimedOut),
        }
    }
}
