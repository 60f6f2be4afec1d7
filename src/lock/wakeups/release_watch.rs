//! Releases of one name, as the nodes report them, and whether the name may be free.

use std::{sync::Arc, task::Context, time::Duration};

use super::fairness::LONGEST_STREAK;
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
    nodes: Box<[NodeReports]>,
    /// Number of reports so far.
    reports: u64,
    /// Number of processes that listened at the latest release.
    listening: usize,
    watchers: WakerSet,
}

impl ReleaseWatch {
    pub(super) fn new(nodes: usize, timers: Arc<Timers>) -> Self {
        let state = ReleaseWatchState {
            nodes: vec![NodeReports::default(); nodes].into(),
            reports: 0,
            listening: 0,
            watchers: WakerSet::default(),
        };
        Self { timers, state: Mutex::new(state) }
    }

    /// Reads what was reported. The next report wakes the task.
    pub(super) fn look<T>(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
        look: impl FnOnce(&[NodeReports], usize) -> T,
    ) -> T {
        let waker = crate::sync::clone_waker(cx.waker());
        let mut state = crate::sync::lock(&self.state);
        let replaced = state.watchers.register(key, waker);
        let seen = look(&state.nodes, state.listening);
        drop(state);
        drop(replaced);
        seen
    }

    pub(super) fn unwatch(&self, key: &mut WakerKey) {
        let waker = crate::sync::lock(&self.state).watchers.remove(key);
        drop(waker);
    }

    /// Number of reports so far.
    pub(super) fn reports(&self) -> u64 {
        crate::sync::lock(&self.state).reports
    }

    /// Number of turns of others since this process released the name, by one node's reports.
    pub(super) fn passed(&self, node: usize) -> usize {
        crate::sync::lock(&self.state).nodes.get(node).map_or(0, |node| node.passed)
    }

    /// Number of processes that listened at the latest release.
    pub(super) fn listening(&self) -> usize {
        crate::sync::lock(&self.state).listening
    }

    /// Notes that this process releases the name.
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
                // For owners of leases.
                Hint::Asked { .. } => {}
            }
            state.watchers.take(&mut wakers);
        }
        crate::sync::wake_all(wakers);
    }
}

/// Time of a report, and its number among all reports of a name: the clock may not have advanced.
pub(super) type Moment = (Timestamp, u64);

/// The reports of one node about a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeReports {
    /// Start of the subscription; `None` while there is none.
    since: Option<Moment>,
    /// The latest release.
    freed: Option<Moment>,
    /// Number of turns of others since this process released the name.
    passed: usize,
    /// The release that was counted last.
    counted: Option<Timestamp>,
}

impl NodeReports {
    /// Notes a release. Several within the length of a streak are one turn.
    fn release(&mut self, at: Moment) {
        self.freed = Some(at);
        if self.counted.is_none_or(|last| at.0.saturating_duration_since(last) >= LONGEST_STREAK) {
            self.counted = Some(at.0);
            self.passed += 1;
        }
    }

    /// Notes that this process releases the name, which is no turn of others.
    fn returning(&mut self, at: Timestamp) {
        (self.passed, self.counted) = (0, Some(at));
    }
}

/// Whether a name may be free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseStatus {
    /// Fewer than a quorum of nodes would report a release.
    Unwatched,
    /// A quorum would report a release, and none has.
    Held,
    /// Fewer than a quorum reported a release, the first of them then.
    Partial(Timestamp),
    /// It may be free since then. `listening`: number of processes that were notified.
    Free { listening: usize, since: Timestamp },
}

impl ReleaseStatus {
    /// Combines the status of two names, which both have to be free.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Free { listening: a, since }, Self::Free { listening: b, since: then }) => {
                Self::Free { listening: a.max(b), since: since.max(then) }
            }
            (free @ Self::Free { .. }, _) | (_, free @ Self::Free { .. }) => free,
            (Self::Unwatched, _) | (_, Self::Unwatched) => Self::Unwatched,
            (Self::Partial(a), Self::Partial(b)) => Self::Partial(a.min(b)),
            (partial @ Self::Partial(_), _) | (_, partial) => partial,
        }
    }
}

/// Returns the status for a request whose last try began at `tried` and which asks `first` first.
pub(super) fn release_status(
    nodes: &[NodeReports],
    listening: usize,
    (tried, first, quorum): (Moment, Option<usize>, usize),
) -> ReleaseStatus {
    let is_new = |node: &&NodeReports| node.freed.is_some_and(|at| at > tried);
    let freed = nodes.iter().filter(is_new).count();
    let latest = || nodes.iter().filter_map(|node| node.freed).max();
    let since = latest().map_or(Timestamp::ZERO, |(at, _)| at);
    // With a lead node its report is enough: the release is on its way to the other nodes.
    let at_first = is_crowd(listening)
        && first.and_then(|node| nodes.get(node)).is_some_and(|node| is_new(&node));
    // A node that was subscribed to after the try may have released the name before that.
    let is_unsure = |node: &&NodeReports| node.since.is_some_and(|at| at > tried) && !is_new(node);
    let unsure = nodes.iter().filter(is_unsure).count();
    let is_freed = freed >= quorum || (freed > 0 && freed + unsure >= quorum);
    if is_freed || at_first {
        return ReleaseStatus::Free { listening, since };
    }
    if nodes.iter().filter(|node| node.since.is_some()).count() < quorum {
        return ReleaseStatus::Unwatched;
    }
    // A release between the try and the quorum of subscriptions was not reported.
    let subscribed = nodes.iter().filter(|node| node.since.is_some_and(|at| at <= tried)).count();
    if subscribed < quorum {
        return ReleaseStatus::Free { listening: 0, since };
    }
    match nodes.iter().filter(is_new).filter_map(|node| node.freed).min() {
        Some((at, _)) => ReleaseStatus::Partial(at),
        None => ReleaseStatus::Held,
    }
}

/// Whether so many listeners may split the votes. Of two contenders for an odd number of nodes one
/// always has a majority, and one of the listeners is mostly the process that released the name.
pub(super) fn is_crowd(listening: usize) -> bool {
    listening > 2
}

/// Returns the delay before the next try, where others have had `passed` turns since this process
/// released the name. The process that waited longest tries at once, the others some milliseconds
/// later, in that order. Not all listeners wait, so the delay is short.
pub(super) fn turn(listening: usize, passed: usize) -> Duration {
    // The process that released it listens too.
    let before = u32::try_from(listening.saturating_sub(passed + 1)).unwrap_or(u32::MAX);
    SLOT * before.min(FEW)
}

/// Interval between the tries of two processes: the granularity of timers.
const SLOT: Duration = Duration::from_millis(2);
/// Number of processes that keep their order behind the first.
const FEW: u32 = 2;

#[cfg(test)]
#[path = "../tests/release_watch.rs"]
mod tests;
