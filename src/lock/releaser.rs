//! Repeats the releases that nodes did not acknowledge (R8).
//!
//! A release that is not final is repeated in the background, at most until the key has expired: to
//! a silent node one at a time with an increasing backoff, to a node that answers in batches.

use std::{
    sync::{Arc, Weak},
    task::{Wake, Waker},
    time::Duration,
};

use crate::{
    error::Reason,
    node::{Node, Reply},
    protocol::{Answer, LeaseId, Op},
    quorum::pending_releases::{PendingRelease, PendingReleases},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Timers,
};

/// Repeats the releases that nodes did not acknowledge, until the keys have expired.
#[derive(Debug)]
pub(crate) struct Releaser {
    nodes: Box<[Arc<Repeater>]>,
}

/// The repeated releases of one node. The timers wake it.
struct Repeater {
    node: Weak<dyn Node>,
    /// The timers. Weak, because their entries keep the repeater alive.
    timers: Weak<Timers>,
    backlog: Mutex<PendingReleases<Arc<LeaseId>>>,
    /// Whether a timer is set.
    armed: AtomicBool,
}

impl Releaser {
    pub(crate) fn new(nodes: &[Arc<dyn Node>], timers: &Arc<Timers>) -> Self {
        let repeater = |node| {
            Arc::new(Repeater {
                node: Arc::downgrade(node),
                timers: Arc::downgrade(timers),
                backlog: Mutex::default(),
                armed: AtomicBool::new(false),
            })
        };
        Self { nodes: nodes.iter().map(repeater).collect() }
    }

    /// Repeats a release. `ttl` is the maximum time for which the node may keep the key.
    pub(crate) fn push(&self, node: usize, lease: Arc<LeaseId>, ttl: Duration) {
        let repeater = &self.nodes[node];
        let Some(timers) = repeater.timers.upgrade() else { return };
        let now = timers.clock().now();
        repeater.backlog().push(PendingRelease { lease, until: now + ttl }, now);
        repeater.schedule(&timers);
    }

    /// Returns the number of releases that are not acknowledged.
    pub(crate) fn pending(&self, node: usize) -> usize {
        self.nodes[node].backlog().unacknowledged()
    }
}

impl Repeater {
    fn backlog(&self) -> crate::sync::Guard<'_, PendingReleases<Arc<LeaseId>>> {
        crate::sync::lock(&self.backlog)
    }

    fn schedule(self: &Arc<Self>, timers: &Timers) {
        let next = self.backlog().next_wake();
        if let Some(at) = next
            && !self.armed.swap(true, Ordering::AcqRel)
        {
            timers.insert(at, Waker::from(Arc::clone(self)));
        }
    }

    fn on_answer(
        self: Arc<Self>,
        entry: PendingRelease<Arc<LeaseId>>,
        result: &Result<Answer, Reason>,
    ) {
        let (Some(node), Some(timers)) = (self.node.upgrade(), self.timers.upgrade()) else {
            return;
        };
        if let Ok(Answer::Released(_)) = result {
            let (node, resource) = (node.name(), entry.lease.resource());
            crate::log::debug!(node, %resource, "late release acknowledged");
            self.backlog().answered();
        } else {
            let now = timers.clock().now();
            self.backlog().failed(entry, now);
        }
        self.schedule(&timers);
    }
}

impl Wake for Repeater {
    fn wake(self: Arc<Self>) {
        let (Some(node), Some(timers)) = (self.node.upgrade(), self.timers.upgrade()) else {
            return;
        };
        self.armed.store(false, Ordering::Release);
        let due = self.backlog().take(timers.clock().now());
        if due.is_empty() {
            return self.schedule(&timers);
        }
        for entry in due {
            let this = Arc::clone(&self);
            let op = Op::Release(Arc::clone(&entry.lease));
            let reply = Reply::from_fn(move |result| this.on_answer(entry, &result));
            node.send(op, reply);
        }
    }
}

opaque_debug!(Repeater);
