use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use crate::time::{Timers, Timestamp};

/// Which nodes' clocks jumped, and when it was seen: what they confirmed before is worth nothing.
#[derive(Debug)]
pub(crate) struct Soundness {
    timers: Arc<Timers>,
    /// How many jumps there were: what every lease compares before it does anything.
    epoch: AtomicU64,
    jumps: Box<[Mutex<Option<Jump>>]>,
}

/// A server's clock jumped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jump {
    /// When it was seen.
    pub(crate) seen: Timestamp,
    pub(crate) by_micros: i64,
}

impl Soundness {
    pub(crate) fn new(nodes: usize, timers: Arc<Timers>) -> Self {
        Self {
            timers,
            epoch: AtomicU64::new(0),
            jumps: (0..nodes).map(|_| Mutex::new(None)).collect(),
        }
    }

    /// A node's clock jumped: every lease looks at once at what that leaves it.
    pub(crate) fn jumped(&self, node: usize, jump: Jump) {
        *crate::sync::lock(&self.jumps[node]) = Some(jump);
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.timers.wake_all();
    }

    /// The clock was put forward: every lease looks at its deadline.
    pub(crate) fn look_again(&self) {
        self.timers.wake_all();
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The nodes whose clock jumped, and their latest jump.
    pub(crate) fn jumps(&self) -> impl Iterator<Item = (usize, Jump)> + '_ {
        let latest = |(node, jump): (usize, &Mutex<Option<Jump>>)| {
            crate::sync::lock(jump).map(|jump| (node, jump))
        };
        self.jumps.iter().enumerate().filter_map(latest)
    }
}
