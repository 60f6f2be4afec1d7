//! The time that all views of one clock share.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::sync::{Guard, Mutex};

/// The common time of a clock's views, in nanoseconds, and the wakers that wait for it.
#[derive(Debug, Default)]
pub(super) struct CommonTime {
    state: Mutex<PendingWaits>,
}

#[derive(Debug, Default)]
struct PendingWaits {
    now: u64,
    waits: BTreeMap<WaitKey, Waker>,
    next_id: u64,
}

/// The end of a wait, and a unique number.
type WaitKey = (u64, u64);

impl CommonTime {
    pub(super) fn starting_at(now: u64) -> Self {
        Self { state: Mutex::new(PendingWaits { now, ..PendingWaits::default() }) }
    }

    pub(super) fn now(&self) -> u64 {
        self.state().now
    }

    /// The end of the earliest wait.
    pub(super) fn next(&self) -> Option<u64> {
        self.state().waits.keys().next().map(|(at, _)| *at)
    }

    /// Moves to the end of the earliest wait, at most to `target`, and wakes its task. Returns
    /// false if there is nothing left to do up to `target`.
    pub(super) fn step(&self, target: u64) -> bool {
        let mut state = self.state();
        let next = state.waits.keys().next().map_or(target, |(at, _)| *at).min(target);
        let moved = next > state.now;
        state.now = next.max(state.now);
        wake_due(state) || moved
    }

    /// Moves time at once, without waking tasks in between.
    pub(super) fn leap(&self, by: u64) {
        let mut state = self.state();
        state.now = state.now.saturating_add(by);
        wake_due(state);
    }

    fn state(&self) -> Guard<'_, PendingWaits> {
        crate::sync::lock(&self.state)
    }
}

/// Wakes the waits that are due, in the order of their ends. Returns whether there were any.
fn wake_due(mut state: Guard<'_, PendingWaits>) -> bool {
    let now = state.now;
    let later = now.checked_add(1).map(|next| state.waits.split_off(&(next, 0)));
    let due = std::mem::replace(&mut state.waits, later.unwrap_or_default());
    drop(state);
    let any = !due.is_empty();
    crate::sync::wake_all(due.into_values());
    any
}

/// Completes when the clock reaches a moment.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ManualSleep {
    time: Arc<CommonTime>,
    at: u64,
    key: Option<WaitKey>,
}

impl ManualSleep {
    pub(super) fn new(time: Arc<CommonTime>, at: u64) -> Self {
        Self { time, at, key: None }
    }
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.time.state();
        // Checked under the mutex that a move takes, so that no move is missed before the entry is
        // made.
        if state.now >= this.at {
            return Poll::Ready(());
        }
        let key = this.key.unwrap_or_else(|| {
            state.next_id += 1;
            (this.at, state.next_id)
        });
        let before = state.waits.insert(key, cx.waker().clone());
        drop(state);
        drop(before);
        this.key = Some(key);
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let waker = self.time.state().waits.remove(&key);
            drop(waker);
        }
    }
}
