//! The state of `turns` under mutexes, with the tasks that wait for its changes: releases of one name, as the
//! nodes report them, and the streaks of a manager, shared by its requests.

use std::{sync::Arc, task::Context};

use super::turns::{CurrentTurn, ReleaseReports, Streaks};
use crate::{
    lock::waker_set::{WakerKey, WakerSet},
    node::Hint,
    resource::Resource,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
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
    pub(super) fn watch<T>(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
        read: impl FnOnce(&[ReleaseReports], usize) -> T,
    ) -> T {
        let waker = crate::sync::clone_waker(cx.waker());
        let mut state = crate::sync::lock(&self.state);
        let replaced = state.watchers.register(key, waker);
        let seen = read(&state.nodes, state.listening);
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

    pub(crate) fn hint(&self, node: usize, hint: &Hint) {
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

/// The streaks of a manager, and the tasks that wait for a node's answer whether other processes
/// wait.
#[derive(Debug, Default)]
pub(super) struct SharedStreaks {
    /// Whether there are any streaks. Usually there are none.
    any: AtomicBool,
    state: Mutex<WatchedStreaks>,
}

#[derive(Debug, Default)]
struct WatchedStreaks {
    streaks: Streaks,
    watchers: WakerSet,
}

impl SharedStreaks {
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Streaks) -> T) -> T {
        read(&crate::sync::lock(&self.state).streaks)
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Streaks) -> T) -> T {
        let mut state = crate::sync::lock(&self.state);
        let result = change(&mut state.streaks);
        self.any.store(!state.streaks.is_empty(), Ordering::Release);
        result
    }

    /// Updates the streaks by a node's answer, and wakes the tasks that wait for one.
    pub(super) fn answered(&self, change: impl FnOnce(&mut Streaks)) {
        let mut wakers = Vec::new();
        self.change(change);
        crate::sync::lock(&self.state).watchers.take(&mut wakers);
        crate::sync::wake_all(wakers);
    }

    /// Returns whose turn it is. The next answer wakes the task.
    pub(super) fn watch(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
        resource: &Resource,
        now: Timestamp,
    ) -> CurrentTurn {
        let waker = crate::sync::clone_waker(cx.waker());
        let mut state = crate::sync::lock(&self.state);
        let replaced = state.watchers.register(key, waker);
        let turn = state.streaks.turn(resource, now);
        drop(state);
        drop(replaced);
        turn
    }

    pub(super) fn unwatch(&self, key: &mut WakerKey) {
        let waker = crate::sync::lock(&self.state).watchers.remove(key);
        drop(waker);
    }
}
