//! The turns of processes that wait for a name: which one is next, and when to ask again.
//!
//! The logic is pure: it has no clock, task or random number. `watches` keeps its
//! state under mutexes, and `pause` waits.

use std::{collections::HashMap, ops::RangeInclusive, sync::Arc, time::Duration};

use crate::{
    resource::Resource,
    switches::{self, Switch},
    time::Timestamp,
};

// --- this process's own turns ---

/// Maximum duration of a streak in which a process re-acquires a name without a pause.
pub(super) const LONGEST_STREAK: Duration = Duration::from_millis(5);
/// Maximum duration of a streak in which a process serves its local line a second time.
const LONG_TURN: Duration = Duration::from_millis(20);
/// Age from which information about waiters is stale.
const STALE_AGE: Duration = Duration::from_secs(1);
/// Number of names from which on stale ones are removed, once in [`STALE_AGE`].
const SWEEP_THRESHOLD: usize = 64;

/// Streaks: names that this process acquires again and again while other processes wait.
///
/// An acquire that directly follows a release finds the name free on every node, before any waiter
/// is notified, so one process could keep a name for ever. So at the end of a streak a lease is
/// handed on for at most one more pass of the local line, or two short ones, and the next request
/// pauses before it asks the nodes. After a hold of the length of a streak, a process asks again
/// only when a node has answered whether others wait. Where none waits there is no streak and no
/// pause.
///
/// Waiters may be farther away than the pause is long, so each pause is longer than the one before,
/// until another process has held the name.
#[derive(Debug, Default)]
pub(super) struct Streaks {
    names: HashMap<Arc<str>, Streak>,
    /// Time of the last removal of stale names.
    removed_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct Streak {
    /// Start of the streak; `None` from a pause until the next release.
    since: Option<Timestamp>,
    waiters: WaiterInfo,
    /// Number of pauses since another process held the name.
    pauses: u32,
}

/// The known state of other processes that wait, and its time.
#[derive(Clone, Copy, Debug)]
enum WaiterInfo {
    /// Released; no node has answered yet.
    Unknown(Timestamp),
    /// Others listened when this process was granted the name.
    Possible(Timestamp),
    /// A node answered that others wait.
    Confirmed(Timestamp),
}

/// The process whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CurrentTurn {
    Ours,
    Others,
    /// Released after a long hold; no node has answered yet.
    Unknown,
}

impl Streaks {
    /// Records that this process was granted the names while others listened.
    pub(super) fn begin(&mut self, resource: &Resource, since: Timestamp, now: Timestamp) {
        self.forget_stale(now);
        for name in resource.shared_names() {
            let new = Streak { waiters: WaiterInfo::Possible(now), ..Streak::new(since, now) };
            self.streak(name, new, now);
        }
    }

    /// Records that the names, held since `since`, are about to be released.
    pub(super) fn returning(&mut self, resource: &Resource, since: Timestamp, now: Timestamp) {
        if now.saturating_duration_since(since) < LONGEST_STREAK {
            return;
        }
        self.forget_stale(now);
        for name in resource.shared_names() {
            let streak = self.streak(name, Streak::new(since, now), since);
            // Former waiters may have left during such a hold.
            if streak.is_unconfirmed(now) {
                streak.waiters = WaiterInfo::Unknown(now);
            }
        }
    }

    /// Records a node's answer to the release of names that were held since `since`. `awaited` is
    /// true if another process waits for one of them.
    pub(super) fn returned(
        &mut self,
        resource: &Resource,
        awaited: bool,
        since: Timestamp,
        now: Timestamp,
    ) {
        if awaited {
            self.forget_stale(now);
        }
        for name in resource.shared_names() {
            if awaited {
                let streak = self.streak(name, Streak::new(since, now), now);
                streak.waiters = WaiterInfo::Confirmed(now);
            } else if self.names.get(name).is_some_and(|streak| streak.is_unconfirmed(now)) {
                self.names.remove(name);
            }
        }
    }

    /// Returns whether this process may hand the names on, after `passes` passes of the line at the
    /// grant.
    pub(super) fn is_in_turn(&self, resource: &Resource, passes: usize, now: Timestamp) -> bool {
        let mut streaks = resource.shared_names().iter().filter_map(|name| self.names.get(name));
        streaks.all(|streak| {
            let lasts =
                streak.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
            let is_unknown =
                streak.is_stale(now) || matches!(streak.waiters, WaiterInfo::Unknown(_));
            is_unknown || lasts < LONGEST_STREAK || passes < 1 || (passes < 2 && lasts < LONG_TURN)
        })
    }

    /// Pauses for other processes: a new streak begins after it. Returns the number of earlier
    /// pauses in which no other process held the name.
    pub(super) fn begin_pause(&mut self, resource: &Resource) -> u32 {
        let mut before = 0;
        for name in resource.shared_names() {
            let Some(streak) = self.names.get_mut(name) else { continue };
            before = before.max(streak.pauses);
            streak.since = None;
            streak.pauses = streak.pauses.saturating_add(1);
        }
        before
    }

    /// Records that another process has held the names.
    pub(super) fn end(&mut self, resource: &Resource) {
        for name in resource.shared_names() {
            self.names.remove(name);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the streak of a name, or inserts `new` if there is none or it was stale at `at`.
    fn streak(&mut self, name: &Arc<str>, new: Streak, at: Timestamp) -> &mut Streak {
        let streak = self.names.entry(Arc::clone(name)).or_insert(new);
        if streak.is_stale(at) {
            *streak = new;
        }
        streak.since = streak.since.or(new.since);
        streak
    }

    /// Returns whose turn it is.
    pub(super) fn turn(&self, resource: &Resource, now: Timestamp) -> CurrentTurn {
        let mut turn = CurrentTurn::Ours;
        if switches::is_out(Switch::Turns) {
            return turn;
        }
        for streak in resource.shared_names().iter().filter_map(|name| self.names.get(name)) {
            match streak.waiters {
                _ if streak.is_stale(now) => {}
                WaiterInfo::Unknown(_) => turn = CurrentTurn::Unknown,
                WaiterInfo::Confirmed(_) if streak.is_long(now) => return CurrentTurn::Others,
                WaiterInfo::Possible(_) | WaiterInfo::Confirmed(_) => {}
            }
        }
        turn
    }

    /// Removes stale names, at intervals, because a removal at each call would take quadratic time.
    fn forget_stale(&mut self, now: Timestamp) {
        if self.names.len() >= SWEEP_THRESHOLD
            && self.removed_at.is_none_or(|at| now.saturating_duration_since(at) >= STALE_AGE)
        {
            self.removed_at = Some(now);
            self.names.retain(|_, streak| !streak.is_stale(now));
        }
    }
}

impl Streak {
    fn new(since: Timestamp, now: Timestamp) -> Self {
        Self { since: Some(since), waiters: WaiterInfo::Unknown(now), pauses: 0 }
    }

    /// Returns whether no waiter is known.
    fn is_unconfirmed(&self, now: Timestamp) -> bool {
        !matches!(self.waiters, WaiterInfo::Confirmed(_)) || self.is_stale(now)
    }

    fn is_long(&self, now: Timestamp) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= LONGEST_STREAK)
    }

    fn is_stale(&self, now: Timestamp) -> bool {
        let (WaiterInfo::Unknown(at) | WaiterInfo::Possible(at) | WaiterInfo::Confirmed(at)) =
            self.waiters;
        now.saturating_duration_since(at) >= STALE_AGE
    }
}

// --- releases by other processes ---

/// Time of a report, and its number among all reports of a name: the clock may not have advanced.
pub(super) type Moment = (Timestamp, u64);

/// The reports of one node about a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReleaseReports {
    /// Start of the subscription; `None` while there is none.
    pub(super) since: Option<Moment>,
    /// The latest release.
    freed: Option<Moment>,
    /// Number of turns of others since this process released the name.
    pub(super) passed: usize,
    /// Number of all turns.
    pub(super) turns: usize,
    /// The release that was counted last.
    counted: Option<Timestamp>,
}

impl ReleaseReports {
    /// Records a release. Several releases within the length of a streak are one turn.
    pub(super) fn release(&mut self, at: Moment) {
        self.freed = Some(at);
        if self.counted.is_none_or(|last| at.0.saturating_duration_since(last) >= LONGEST_STREAK) {
            self.counted = Some(at.0);
            self.passed += 1;
            self.turns += 1;
        }
    }

    /// Records that this process releases the name, which does not count as a turn of others.
    pub(super) fn returning(&mut self, at: Timestamp) {
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
    /// Fewer than a quorum reported a release, the first one at this time.
    Partial(Timestamp),
    /// The name may be free since `since`. `listening` is the number of notified processes.
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

/// Returns the status for a request whose last attempt began at `tried` and which asks `first`
/// first.
pub(super) fn release_status(
    nodes: &[ReleaseReports],
    listening: usize,
    tried: Moment,
    first: Option<usize>,
    quorum: usize,
) -> ReleaseStatus {
    let is_new = |node: &&ReleaseReports| node.freed.is_some_and(|at| at > tried);
    let freed = nodes.iter().filter(is_new).count();
    let latest = || nodes.iter().filter_map(|node| node.freed).max();
    let since = latest().map_or(Timestamp::ZERO, |(at, _)| at);
    // The report of a lead node is enough, because the release is on its way to the other nodes.
    let at_first = is_crowd(listening)
        && first.and_then(|node| nodes.get(node)).is_some_and(|node| is_new(&node));
    // A subscription that began after the attempt may have missed a release.
    let is_unsure =
        |node: &&ReleaseReports| node.since.is_some_and(|at| at > tried) && !is_new(node);
    let unsure = nodes.iter().filter(is_unsure).count();
    let is_freed = freed >= quorum || (freed > 0 && freed + unsure >= quorum);
    if is_freed || at_first {
        return ReleaseStatus::Free { listening, since };
    }
    if nodes.iter().filter(|node| node.since.is_some()).count() < quorum {
        return ReleaseStatus::Unwatched;
    }
    // A release between the attempt and a quorum of subscriptions was not reported.
    let subscribed = nodes.iter().filter(|node| node.since.is_some_and(|at| at <= tried)).count();
    if subscribed < quorum {
        return ReleaseStatus::Free { listening: 0, since };
    }
    match nodes.iter().filter(is_new).filter_map(|node| node.freed).min() {
        Some((at, _)) => ReleaseStatus::Partial(at),
        None => ReleaseStatus::Held,
    }
}

/// Returns whether this number of listeners may split the votes. Of two contenders for an odd
/// number of nodes one always has a majority, and one of the listeners is usually the process that
/// released the name.
pub(super) fn is_crowd(listening: usize) -> bool {
    listening > 2
}

/// Returns the delay before the next attempt, after `passed` turns of others since this process
/// released the name. The process that waited longest tries at once, the others some milliseconds
/// later, in that order. Not all listeners wait, so the delay is short.
pub(super) fn turn(listening: usize, passed: usize) -> Duration {
    // The process that released the name listens as well.
    let before = u32::try_from(listening.saturating_sub(passed + 1)).unwrap_or(u32::MAX);
    TRY_INTERVAL * before.min(ORDERED)
}

/// Interval between the attempts of two processes: the granularity of timers.
const TRY_INTERVAL: Duration = Duration::from_millis(2);
/// Number of processes after the first that keep their order.
const ORDERED: u32 = 2;

// --- pauses ---

/// Maximum time after which woken processes have asked for the name.
pub(crate) const LONGEST_YIELD: Duration = Duration::from_millis(10);

/// Minimum pause. Without a pause, no other process would ever acquire the name first.
pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// Returns the pause in which other processes have their turn, after `before` such pauses in which
/// none acquired the name.
///
/// It lasts for the wake-up of a process, plus a round trip of a distant process.
pub(super) fn yield_pause(
    delay: &RangeInclusive<Duration>,
    before: u32,
    node_timeout: Duration,
) -> Duration {
    let near = (*delay.start()).clamp(SHORTEST_PAUSE, LONGEST_YIELD);
    near.saturating_mul(1 << before.min(10)).min(node_timeout.max(near))
}

/// Maximum pause while a quorum of nodes reports releases. Messages get lost.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Maximum pause of an exclusive request that shared leases keep out, also with more requests or a longer
/// `retry_delay`: half of the time for which the servers remember that it waits.
pub(super) const LONGEST_REMINDER: Duration = Duration::from_secs(1);

/// Minimum mean interval between the attempts of all requests of a manager to which releases are
/// reported. The more requests wait, the longer each one pauses.
pub(super) const NOTIFIED_SPACING: Duration = Duration::from_millis(1);

/// Maximum mean interval between the attempts of requests that no quorum answers: each pauses for half
/// of its share of this to all of it. These attempts detect that servers are back.
pub(super) const SILENT_SPACING: Duration = Duration::from_micros(250);

/// Returns the bounds of the pause that keeps `waiting` requests at that mean spacing.
pub(super) fn spaced(spacing: Duration, waiting: usize) -> RangeInclusive<Duration> {
    let pause = spacing.saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX));
    pause / 2..=pause
}

/// Returns the pause after `silent` attempts in a row without an answer of a quorum. Each doubles
/// it, up to `longest`.
pub(super) fn backoff(short: Duration, silent: u32, longest: Duration) -> Duration {
    match silent {
        0 => short,
        _ => short.saturating_mul(1 << silent.min(10)).min(longest).max(short),
    }
}

/// Returns the timeout for the lead node's answer: half of the node timeout, so that a hung lead node
/// costs less than an attempt, and there is time for the answer of a busy one.
pub(super) fn max_delay(node_timeout: Duration) -> Duration {
    node_timeout / 2
}

#[cfg(test)]
#[path = "../tests/turns.rs"]
mod tests;
