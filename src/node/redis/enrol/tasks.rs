//! What goes on beside the operations: probations end, records are taken over.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ::redis::{Pipeline, Value};
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::oneshot;

use super::{
    activate, copy,
    set::{Admin, Copying, NodeSet},
};
use crate::{
    error::Reason,
    quorum::enrol::{Outcome, Step},
    time::{Clock, Timestamp},
};

/// A node that has not answered by then is tried again later.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const COPY_RETRY: Duration = Duration::from_millis(500);

enum Ended {
    Activation { node: usize, outcome: Outcome },
    Copy { node: usize, done: bool },
}

enum Work {
    Activate(Step),
    Copy(usize),
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
            let (steps, copies, wake) = self.due(now);
            for step in steps {
                under_way.push(self.work(Work::Activate(step)));
            }
            for node in copies {
                under_way.push(self.work(Work::Copy(node)));
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

    fn due(&self, now: Timestamp) -> (Vec<Step>, Vec<usize>, Option<Timestamp>) {
        let mut state = self.state();
        let (steps, mut wake) = if self.is_unguarded() {
            (Vec::new(), None)
        } else {
            (state.enrolment.due(now), state.enrolment.next_wake())
        };
        let mut copies = Vec::new();
        for (node, copying) in state.copying.iter_mut().enumerate() {
            if let Copying::Wanted(at) = *copying {
                if at <= now {
                    *copying = Copying::UnderWay;
                    copies.push(node);
                } else {
                    wake = Some(wake.map_or(at, |wake| wake.min(at)));
                }
            }
        }
        (steps, copies, wake)
    }

    async fn work(&self, work: Work) -> Ended {
        match work {
            Work::Activate(step) => {
                let node = step.node;
                Ended::Activation { node, outcome: activate::activate(self, step).await }
            }
            Work::Copy(node) => Ended::Copy { node, done: copy::copy(self, node).await },
        }
    }

    fn ended(&self, ended: &Ended) {
        let now = self.clock.now();
        let mut state = self.state();
        let node = match *ended {
            Ended::Activation { node, outcome } => {
                state.enrolment.ended(node, outcome, now);
                node
            }
            Ended::Copy { node, done } => {
                state.copying[node] =
                    if done { Copying::Done } else { Copying::Wanted(now + COPY_RETRY) };
                node
            }
        };
        drop(state);
        let _ = self.members()[node].admin.send(Admin::Check);
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
