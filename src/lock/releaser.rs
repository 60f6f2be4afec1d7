use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
    time::Duration,
};

use super::core::Core;
use crate::{
    error::Reason,
    node::Reply,
    protocol::{Answer, LeaseId, Op},
    quorum::backlog::{Backlog, PendingRelease},
};

/// Repeats the releases that nodes did not acknowledge, until the keys have expired anyway.
#[derive(Debug)]
pub(crate) struct Releaser {
    nodes: Box<[Arc<Repeater>]>,
}

/// The repeated releases of one node; woken by the timers.
#[derive(Debug)]
struct Repeater {
    node: usize,
    core: Weak<Core>,
    backlog: Mutex<Backlog<Arc<LeaseId>>>,
    /// Whether a timer is set.
    armed: AtomicBool,
}

impl Releaser {
    pub(crate) fn new(nodes: usize, core: &Weak<Core>) -> Self {
        let repeater = |node| {
            Arc::new(Repeater {
                node,
                core: Weak::clone(core),
                backlog: Mutex::default(),
                armed: AtomicBool::new(false),
            })
        };
        Self { nodes: (0..nodes).map(repeater).collect() }
    }

    /// Takes up a release; the node may keep the key for `ttl` at the longest.
    pub(crate) fn push(&self, core: &Core, node: usize, lease: Arc<LeaseId>, ttl: Duration) {
        let now = core.clock().now();
        let repeater = &self.nodes[node];
        repeater.backlog().push(PendingRelease { lease, until: now + ttl }, now);
        repeater.schedule(core);
    }

    pub(crate) fn pending(&self, node: usize) -> usize {
        self.nodes[node].backlog().len()
    }
}

impl Repeater {
    fn backlog(&self) -> crate::sync::Guard<'_, Backlog<Arc<LeaseId>>> {
        crate::sync::lock(&self.backlog)
    }

    fn schedule(self: &Arc<Self>, core: &Core) {
        let next = self.backlog().next_wake();
        if let Some(at) = next
            && !self.armed.swap(true, Ordering::AcqRel)
        {
            core.timers.insert(at, Waker::from(Arc::clone(self)));
        }
    }

    fn run(self: Arc<Self>) {
        let Some(core) = self.core.upgrade() else { return };
        self.armed.store(false, Ordering::Release);
        let due = self.backlog().take(core.clock().now());
        if due.is_empty() {
            return self.schedule(&core);
        }
        for entry in due {
            let this = Arc::clone(&self);
            let op = Op::Release(Arc::clone(&entry.lease));
            let reply = Reply::from_fn(move |result| this.on_answer(entry, &result));
            core.nodes[self.node].send(op, reply);
        }
    }

    fn on_answer(
        self: Arc<Self>,
        entry: PendingRelease<Arc<LeaseId>>,
        result: &Result<Answer, Reason>,
    ) {
        let Some(core) = self.core.upgrade() else { return };
        if let Ok(Answer::Released(_)) = result {
            let node = core.node_name(self.node);
            crate::log::debug!(%node, resource = %entry.lease.resource(), "late release acknowledged");
            self.backlog().answered();
        } else {
            let now = core.clock().now();
            self.backlog().failed(entry, now);
        }
        self.schedule(&core);
    }
}

impl Wake for Repeater {
    fn wake(self: Arc<Self>) {
        self.run();
    }
}
