//! Requests of other processes for leases that linger with this one.

use std::sync::{Arc, OnceLock};

use super::queue::Queue;
use crate::{
    node::{Hint, HintSink, Hints, Node, Subscription, owner_channel},
    protocol::formulas,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Timers, Timestamp},
};

/// The subscription to requests of other processes for leases of this manager.
///
/// A node tells the owner of a lease that may linger that another client was refused it. A quorum of
/// nodes keeps the lease, so that one of any quorum that would tell is among those that refuse.
#[derive(Debug)]
pub(crate) struct LingerAsks {
    reports: Arc<AskReports>,
    /// Not in `reports`, which they keep alive.
    subscriptions: OnceLock<Vec<Subscription>>,
}

#[derive(Debug)]
struct AskReports {
    queue: Arc<Queue>,
    timers: Arc<Timers>,
    /// Since when each node reports.
    nodes: Mutex<Box<[Option<Timestamp>]>>,
    /// Since when a quorum of nodes reports, in ns; the maximum while fewer do.
    since: AtomicU64,
}

impl LingerAsks {
    pub(crate) fn new(queue: &Arc<Queue>, timers: &Arc<Timers>, nodes: usize) -> Self {
        let reports = Arc::new(AskReports {
            queue: Arc::clone(queue),
            timers: Arc::clone(timers),
            nodes: Mutex::new(vec![None; nodes].into()),
            since: AtomicU64::new(u64::MAX),
        });
        Self { reports, subscriptions: OnceLock::new() }
    }

    /// Subscribes at the first call. Not to be called under a mutex of the crate.
    pub(crate) fn subscribe(&self, nodes: &[Arc<dyn Node>], owner: &str) {
        self.subscriptions.get_or_init(|| {
            let channel = owner_channel(owner);
            let subscribe = |(i, node): (usize, &Arc<dyn Node>)| {
                let sink = Arc::clone(&self.reports) as Arc<dyn HintSink>;
                node.subscribe(&channel, Hints::to_watch(sink, i))
            };
            nodes.iter().enumerate().map(subscribe).collect()
        });
    }

    /// Whether a quorum of nodes has reported since `start`.
    pub(crate) fn is_told_since(&self, start: Timestamp) -> bool {
        self.reports.since.load(Ordering::Acquire) <= start.as_nanos()
    }
}

impl HintSink for AskReports {
    fn hint(&self, node: usize, hint: Hint) {
        let since = match hint {
            Hint::Asked { name } => {
                if let Some(lease) = self.queue.holder(&name) {
                    lease.asked();
                }
                return;
            }
            Hint::Listening => Some(self.timers.clock().now()),
            Hint::Deaf => None,
            Hint::Freed { .. } => return,
        };
        let mut nodes = crate::sync::lock(&self.nodes);
        nodes[node] = since.map(|now| nodes[node].unwrap_or(now));
        let mut starts: Vec<_> = nodes.iter().flatten().map(|start| start.as_nanos()).collect();
        starts.sort_unstable();
        let quorum = formulas::quorum(nodes.len());
        self.since.store(starts.get(quorum - 1).copied().unwrap_or(u64::MAX), Ordering::Release);
    }
}
