//! Repeats the operations that nodes did not acknowledge.
//!
//! An operation that is not acknowledged is repeated in the background, at most until it is moot: to
//! a silent node one at a time with an increasing backoff, to a node that answers in batches.

use std::{
    sync::{Arc, Weak},
    task::{Wake, Waker},
};

use super::Obligation;
use crate::{
    error::Reason,
    node::{Node, Reply},
    protocol::Answer,
    quorum::pending_releases::{PendingRelease, PendingReleases},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Timers, Timestamp},
};

type Pending = PendingRelease<Arc<dyn Obligation>>;

/// Repeats the operations that the nodes did not acknowledge, until they are moot.
#[derive(Debug)]
pub(crate) struct Repeaters {
    nodes: Box<[Arc<Repeater>]>,
}

/// The repeated operations of one node. The timers wake it.
struct Repeater {
    /// Number of the node.
    number: usize,
    node: Weak<dyn Node>,
    /// The timers. Weak, because their entries keep the repeater alive.
    timers: Weak<Timers>,
    backlog: Mutex<PendingReleases<Arc<dyn Obligation>>>,
    /// Whether a timer is set.
    armed: AtomicBool,
}

impl Repeaters {
    pub(crate) fn new(nodes: &[Arc<dyn Node>], timers: &Arc<Timers>) -> Self {
        let repeater = |(number, node)| {
            Arc::new(Repeater {
                number,
                node: Arc::downgrade(node),
                timers: Arc::downgrade(timers),
                backlog: Mutex::default(),
                armed: AtomicBool::new(false),
            })
        };
        Self { nodes: nodes.iter().enumerate().map(repeater).collect() }
    }

    /// Repeats an operation that was sent and is not acknowledged. It is moot from `until` on.
    pub(crate) fn repeat(&self, node: usize, end: Arc<dyn Obligation>, until: Timestamp) {
        let repeater = &self.nodes[node];
        let Some(timers) = repeater.timers.upgrade() else { return };
        let now = timers.clock().now();
        repeater.backlog().push(PendingRelease { lease: end, until }, now);
        repeater.schedule(&timers);
    }

    /// Sends an operation, and repeats it until the node has acknowledged it. It is moot from `until`
    /// on.
    pub(crate) fn send(&self, node: usize, end: Arc<dyn Obligation>, until: Timestamp) {
        let repeater = Arc::clone(&self.nodes[node]);
        let (Some(to), Some(timers)) = (repeater.node.upgrade(), repeater.timers.upgrade()) else {
            return;
        };
        let Some(op) = Arc::clone(&end).op(node, timers.clock().now()) else { return };
        let reply = Reply::from_fn(move |answer| {
            if end.answered(repeater.number, answer) {
                return;
            }
            let Some(timers) = repeater.timers.upgrade() else { return };
            let now = timers.clock().now();
            repeater.backlog().push(PendingRelease { lease: end, until }, now);
            repeater.schedule(&timers);
        });
        to.send(op, reply);
    }

    /// Returns the number of operations that the node has not acknowledged.
    pub(crate) fn unacknowledged(&self, node: usize) -> usize {
        self.nodes[node].backlog().unacknowledged()
    }
}

impl Repeater {
    fn backlog(&self) -> crate::sync::Guard<'_, PendingReleases<Arc<dyn Obligation>>> {
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

    fn on_answer(self: Arc<Self>, entry: Pending, answer: Result<Answer, Reason>) {
        let Some(timers) = self.timers.upgrade() else { return };
        if entry.lease.answered(self.number, answer) {
            if let Some(node) = self.node.upgrade() {
                let (node, subject) = (node.name(), entry.lease.subject());
                crate::log::debug!(node, subject, "late end acknowledged");
            }
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
        let now = timers.clock().now();
        let due = self.backlog().take(now);
        for entry in due {
            let Some(op) = Arc::clone(&entry.lease).op(self.number, now) else {
                self.backlog().moot();
                continue;
            };
            let this = Arc::clone(&self);
            node.send(op, Reply::from_fn(move |answer| this.on_answer(entry, answer)));
        }
        self.schedule(&timers);
    }
}

opaque_debug!(Repeater);
