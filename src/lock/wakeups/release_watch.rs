//! Releases of one name, as the nodes report them.

use std::{sync::Arc, task::Context};

use super::turns::ReleaseReports;
use crate::{
    lock::waker_set::{WakerKey, WakerSet},
    node::{Hint, HintSink},
    sync::Mutex,
    time::{Timers, Timestamp},
};

/// Releases of one name, and the tasks that wait for them.
#[derive(Debug)]
pub(super) struct ReleaseWatch {
    timers: Arc<Timers>,
    state: Mutex<ReleaseWatchState>,
}

#[derive(Debug)]
struct ReleaseWatchState {
    nodes: Box<[ReleaseReports]>,
    /// Number of reports so far.
    reports: u64,
    /// Number of processes that listened at the latest release.
    listening: usize,
    watchers: WakerSet,
}

impl ReleaseWatch {
    pub(super) fn new(nodes: usize, timers: Arc<Timers>) -> Self {
        let state = ReleaseWatchState {
            nodes: vec![ReleaseReports::default(); nodes].into(),
            reports: 0,
            listening: 0,
            watchers: WakerSet::default(),
        };
        Self { timers, state: Mutex::new(state) }
    }

    /// Reads the reports. The next report wakes the task.
    pub(super) fn look<T>(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
        look: impl FnOnce(&[ReleaseReports], usize) -> T,
    ) -> T {
        let waker = crate::sync::clone_waker(cx.waker());
        let mut state = crate::sync::lock(&self.state);
        let replaced = state.watchers.register(key, waker);
        let seen = look(&state.nodes, state.listening);
        drop(state);
        drop(replaced);
        seen
    }

    /// Reads the reports.
    pub(super) fn read<T>(&self, read: impl FnOnce(&[ReleaseReports], usize) -> T) -> T {
        let state = crate::sync::lock(&self.state);
        read(&state.nodes, state.listening)
    }

    pub(super) fn unwatch(&self, key: &mut WakerKey) {
        let waker = crate::sync::lock(&self.state).watchers.remove(key);
        drop(waker);
    }

    /// Returns the number of reports so far.
    pub(super) fn reports(&self) -> u64 {
        crate::sync::lock(&self.state).reports
    }

    /// Returns the number of turns of others since this process released the name, by one node's
    /// reports.
    pub(super) fn passed(&self, node: usize) -> usize {
        crate::sync::lock(&self.state).nodes.get(node).map_or(0, |node| node.passed)
    }

    /// Returns the number of all turns, by each node's reports.
    pub(super) fn turns(&self) -> Vec<usize> {
        crate::sync::lock(&self.state).nodes.iter().map(|node| node.turns).collect()
    }

    /// Returns the number of processes that listened at the latest release.
    pub(super) fn listening(&self) -> usize {
        crate::sync::lock(&self.state).listening
    }

    /// Records that this process releases the name.
    pub(super) fn returning(&self, now: Timestamp) {
        let mut state = crate::sync::lock(&self.state);
        state.nodes.iter_mut().for_each(|node| node.returning(now));
    }
}

impl HintSink for ReleaseWatch {
    fn hint(&self, node: usize, hint: Hint) {
        let mut wakers = Vec::new();
        {
            let now = self.timers.clock().now();
            let mut state = crate::sync::lock(&self.state);
            state.reports += 1;
            let now = (now, state.reports);
            let node = &mut state.nodes[node];
            match hint {
                Hint::Listening => node.since = node.since.or(Some(now)),
                Hint::Deaf => node.since = None,
                Hint::Freed { listening } => {
                    node.release(now);
                    state.listening = listening.unwrap_or(usize::MAX);
                }
                // Only owners of leases use it.
                Hint::Asked { .. } | Hint::Withdrawn { .. } => {}
            }
            state.watchers.take(&mut wakers);
        }
        crate::sync::wake_all(wakers);
    }
}
