//! The streaks of a manager, shared by its requests.

use std::task::Context;

use super::turns::{CurrentTurn, Streaks};
use crate::{
    lock::waker_set::{WakerKey, WakerSet},
    resource::Resource,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Timestamp,
};

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
        (resource, now): (&Resource, Timestamp),
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
