//! Releases of one name, as the nodes report them.

use std::{
    sync::{Arc, Mutex},
    task::Context,
};

use super::release_status::Heard;
use crate::{
    lock::watchers::{Watch, Watchers},
    node::{Hint, HintSink},
    time::{Timers, Timestamp},
};

/// Releases of one name, and the tasks that wait for them.
#[derive(Debug)]
pub(super) struct ReleaseWatch {
    timers: Arc<Timers>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    nodes: Box<[Heard]>,
    /// Number of reports so far.
    told: u64,
    /// Number of processes that listened at the latest release.
    listening: usize,
    watchers: Watchers,
}

impl ReleaseWatch {
    pub(super) fn new(nodes: usize, timers: Arc<Timers>) -> Self {
        let state = State {
            nodes: vec![Heard::default(); nodes].into(),
            told: 0,
            listening: 0,
            watchers: Watchers::default(),
        };
        Self { timers, state: Mutex::new(state) }
    }

    /// Reads what was reported. Wakes the task at the next report.
    pub(super) fn look<T>(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
        look: impl FnOnce(&[Heard], usize) -> T,
    ) -> T {
        let waker = crate::sync::clone_waker(cx.waker());
        let mut state = crate::sync::lock(&self.state);
        let replaced = state.watchers.watch(&mut watch.0, waker);
        let seen = look(&state.nodes, state.listening);
        drop(state);
        drop(replaced);
        seen
    }

    pub(super) fn forget(&self, watch: &mut Watch) {
        if let Some(key) = watch.0.take() {
            let waker = crate::sync::lock(&self.state).watchers.forget(key);
            drop(waker);
        }
    }

    /// Number of reports so far.
    pub(super) fn told(&self) -> u64 {
        crate::sync::lock(&self.state).told
    }

    /// Number of turns that others have had since this process released the name, by one node's
    /// reports.
    pub(super) fn passed(&self, node: usize) -> usize {
        crate::sync::lock(&self.state).nodes.get(node).map_or(0, |heard| heard.passed)
    }

    /// Number of processes that listened at the latest release.
    pub(super) fn listening(&self) -> usize {
        crate::sync::lock(&self.state).listening
    }

    /// Notes that this process releases the name.
    pub(super) fn returning(&self, now: Timestamp) {
        let mut state = crate::sync::lock(&self.state);
        state.nodes.iter_mut().for_each(|heard| heard.returning(now));
    }
}

impl HintSink for ReleaseWatch {
    fn hint(&self, node: usize, hint: Hint) {
        let mut wakers = Vec::new();
        {
            let now = self.timers.clock().now();
            let mut state = crate::sync::lock(&self.state);
            state.told += 1;
            let now = (now, state.told);
            let heard = &mut state.nodes[node];
            match hint {
                Hint::Listening => heard.since = heard.since.or(Some(now)),
                Hint::Deaf => heard.since = None,
                Hint::Freed { listening } => {
                    heard.release(now);
                    state.listening = listening.unwrap_or(usize::MAX);
                }
            }
            state.watchers.take(&mut wakers);
        }
        crate::sync::wake_all(wakers);
    }
}
