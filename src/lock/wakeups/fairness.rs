//! Fairness between processes: how long one may keep a name, and the pause for the others.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    lock::{
        core::Core,
        settings::Plan,
        waker_set::{WakerKey, WakerSet},
    },
    random,
    resource::Resource,
    switches::{self, Switch},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Sleep, Timestamp},
};

/// Maximum duration of a streak in which a process re-acquires a name without a pause.
pub(super) const LONGEST_STREAK: Duration = Duration::from_millis(5);
/// Maximum duration of a streak in which a process serves its local line a second time.
const LONG_TURN: Duration = Duration::from_millis(20);
/// Age from which information about waiters is stale.
const STALE: Duration = Duration::from_secs(1);
/// Number of names from which on stale ones are removed, once in [`STALE`].
const MANY: usize = 64;

/// Streaks: names that this process acquires again and again while other processes wait.
///
/// An acquire that directly follows a release finds the name free on every node, before any waiter is
/// notified, so one process could keep a name for ever. So at the end of a streak a lease is handed on
/// for at most one more pass of the local line, or two short ones, and the next request pauses before
/// it asks the nodes. After a hold of the length of a streak, a process asks again only when a node has
/// answered whether others wait. Where none waits there is no streak and no pause.
///
/// Waiters may be farther away than the pause is long, so each pause is longer than the one before,
/// until another process has held the name.
#[derive(Debug, Default)]
pub(super) struct Streaks {
    /// There are any streaks. Usually there are none.
    any: AtomicBool,
    state: Mutex<StreakState>,
}

#[derive(Debug, Default)]
struct StreakState {
    names: HashMap<Arc<str>, Streak>,
    /// When stale names were removed last.
    removed_at: Option<Timestamp>,
    /// Tasks that wait for a node's answer whether others wait.
    watchers: WakerSet,
}

#[derive(Clone, Copy, Debug)]
struct Streak {
    /// Start of the streak; `None` from a pause until the next release.
    since: Option<Timestamp>,
    waiters: WaiterInfo,
    /// Number of pauses since another process held the name.
    pauses: u32,
}

/// What is known of other processes that wait, and since when.
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
pub(super) enum TurnOwner {
    Ours,
    Others,
    /// Released after a long hold; no node has answered yet.
    Unknown,
}

impl Streaks {
    /// Notes that this process was granted the names while others listened.
    pub(super) fn begin(&self, resource: &Resource, since: Timestamp, now: Timestamp) {
        let mut state = crate::sync::lock(&self.state);
        state.forget_stale(now);
        for name in resource.shared_names() {
            let new = Streak { waiters: WaiterInfo::Possible(now), ..Streak::new(since, now) };
            state.streak(name, new, now);
        }
        self.any.store(true, Ordering::Release);
    }

    /// Notes that the names, held since then, are about to be released.
    pub(super) fn returning(&self, resource: &Resource, since: Timestamp, now: Timestamp) {
        if now.saturating_duration_since(since) < LONGEST_STREAK {
            return;
        }
        let mut state = crate::sync::lock(&self.state);
        state.forget_stale(now);
        for name in resource.shared_names() {
            let streak = state.streak(name, Streak::new(since, now), since);
            // Former waiters may have left during such a hold.
            if streak.is_unconfirmed(now) {
                streak.waiters = WaiterInfo::Unknown(now);
            }
        }
        self.any.store(true, Ordering::Release);
    }

    /// Notes a node's answer to the release of names that were held since then. `awaited`: another
    /// process waits for one of them.
    pub(super) fn returned(
        &self,
        resource: &Resource,
        awaited: bool,
        (since, now): (Timestamp, Timestamp),
    ) {
        let mut wakers = Vec::new();
        let mut state = crate::sync::lock(&self.state);
        if awaited {
            state.forget_stale(now);
        }
        for name in resource.shared_names() {
            if awaited {
                let streak = state.streak(name, Streak::new(since, now), now);
                streak.waiters = WaiterInfo::Confirmed(now);
            } else if state.names.get(name).is_some_and(|streak| streak.is_unconfirmed(now)) {
                state.names.remove(name);
            }
        }
        state.watchers.take(&mut wakers);
        self.any.store(!state.names.is_empty(), Ordering::Release);
        drop(state);
        crate::sync::wake_all(wakers);
    }

    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether this process may hand the names on, after `passes` passes of the line at the grant.
    pub(super) fn is_in_turn(&self, resource: &Resource, passes: usize, now: Timestamp) -> bool {
        let state = crate::sync::lock(&self.state);
        let mut streaks = resource.shared_names().iter().filter_map(|name| state.names.get(name));
        streaks.all(|streak| {
            let lasts =
                streak.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
            let is_unknown =
                streak.is_stale(now) || matches!(streak.waiters, WaiterInfo::Unknown(_));
            is_unknown || lasts < LONGEST_STREAK || passes < 1 || (passes < 2 && lasts < LONG_TURN)
        })
    }

    pub(super) fn turn(&self, resource: &Resource, now: Timestamp) -> TurnOwner {
        crate::sync::lock(&self.state).turn(resource, now)
    }

    /// As [`turn`](Self::turn). The next answer wakes the task.
    fn watch(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
        (resource, now): (&Resource, Timestamp),
    ) -> TurnOwner {
        let waker = crate::sync::clone_waker(cx.waker());
        let mut state = crate::sync::lock(&self.state);
        let replaced = state.watchers.register(key, waker);
        let turn = state.turn(resource, now);
        drop(state);
        drop(replaced);
        turn
    }

    fn unwatch(&self, key: &mut WakerKey) {
        let waker = crate::sync::lock(&self.state).watchers.remove(key);
        drop(waker);
    }

    /// Pauses for other processes: a new streak begins after it. Returns the number of earlier pauses
    /// in which no other process held the name.
    pub(super) fn begin_pause(&self, resource: &Resource) -> u32 {
        let mut state = crate::sync::lock(&self.state);
        let mut before = 0;
        for name in resource.shared_names() {
            let Some(streak) = state.names.get_mut(name) else { continue };
            before = before.max(streak.pauses);
            streak.since = None;
            streak.pauses = streak.pauses.saturating_add(1);
        }
        before
    }

    /// Notes that another process has held the names.
    pub(super) fn end(&self, resource: &Resource) {
        if !self.any() {
            return;
        }
        let mut state = crate::sync::lock(&self.state);
        for name in resource.shared_names() {
            state.names.remove(name);
        }
        self.any.store(!state.names.is_empty(), Ordering::Release);
    }
}

impl StreakState {
    /// Returns the streak of a name; `new` in place of none, or of one that was stale at `at`.
    fn streak(&mut self, name: &Arc<str>, new: Streak, at: Timestamp) -> &mut Streak {
        let streak = self.names.entry(Arc::clone(name)).or_insert(new);
        if streak.is_stale(at) {
            *streak = new;
        }
        streak.since = streak.since.or(new.since);
        streak
    }

    fn turn(&self, resource: &Resource, now: Timestamp) -> TurnOwner {
        let mut turn = TurnOwner::Ours;
        if switches::is_out(Switch::Turns) {
            return turn;
        }
        for streak in resource.shared_names().iter().filter_map(|name| self.names.get(name)) {
            match streak.waiters {
                _ if streak.is_stale(now) => {}
                WaiterInfo::Unknown(_) => turn = TurnOwner::Unknown,
                WaiterInfo::Confirmed(_) if streak.is_long(now) => return TurnOwner::Others,
                WaiterInfo::Possible(_) | WaiterInfo::Confirmed(_) => {}
            }
        }
        turn
    }

    /// Removes stale names, at intervals: each time would be quadratic.
    fn forget_stale(&mut self, now: Timestamp) {
        if self.names.len() >= MANY
            && self.removed_at.is_none_or(|at| now.saturating_duration_since(at) >= STALE)
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

    /// No waiter is known.
    fn is_unconfirmed(&self, now: Timestamp) -> bool {
        !matches!(self.waiters, WaiterInfo::Confirmed(_)) || self.is_stale(now)
    }

    fn is_long(&self, now: Timestamp) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= LONGEST_STREAK)
    }

    fn is_stale(&self, now: Timestamp) -> bool {
        let (WaiterInfo::Unknown(at) | WaiterInfo::Possible(at) | WaiterInfo::Confirmed(at)) =
            self.waiters;
        now.saturating_duration_since(at) >= STALE
    }
}

/// Maximum time in which other processes that were woken ask for the name.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// Minimum pause. Without one, no other process would ever come first.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// The pause before a first try, where other processes may wait for the name.
pub(crate) struct Yield {
    core: Arc<Core>,
    resource: Resource,
    node_timeout: Duration,
    /// End of the pause, or of the wait to learn whether others wait.
    until: Timestamp,
    deadline: Timestamp,
    /// Others wait, so the pause has begun.
    has_begun: bool,
    key: WakerKey,
    sleep: Option<(Timestamp, Sleep)>,
}

impl Yield {
    pub(crate) fn new(
        core: &Arc<Core>,
        resource: &Resource,
        plan: &Plan,
        deadline: Timestamp,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            resource: resource.clone(),
            node_timeout: plan.node_timeout,
            until: core.clock().now() + LONGEST_PAUSE,
            deadline,
            has_begun: false,
            key: WakerKey::default(),
            sleep: None,
        }
    }

    /// Length of the pause after `before` pauses in which no other process came.
    fn pause(&self, before: u32) -> Duration {
        let delay = &self.core.settings.retry_delay;
        if !self.core.settings.wakeups {
            // Other processes poll at this interval.
            return random::within(delay);
        }
        // Enough for a process that is woken, plus a round trip for one that is far away.
        let near = (*delay.start()).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        near.saturating_mul(1 << before.min(10)).min(self.node_timeout.max(near))
    }

    /// Ready when it is this process's turn.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let streaks = self.core.wakeups.streaks();
        let now = self.core.clock().now();
        if !self.has_begun {
            match streaks.watch(&mut self.key, cx, (&self.resource, now)) {
                TurnOwner::Ours => return Poll::Ready(()),
                TurnOwner::Unknown => {}
                TurnOwner::Others => {
                    self.has_begun = true;
                    self.until = now + self.pause(streaks.begin_pause(&self.resource));
                }
            }
        }
        let until = self.until.min(self.deadline);
        if now >= until {
            return Poll::Ready(());
        }
        let sleep = match &mut self.sleep {
            Some((at, sleep)) if *at == until => sleep,
            other => &mut other.insert((until, self.core.timers.sleep_until(until))).1,
        };
        Pin::new(sleep).poll(cx)
    }
}

impl Drop for Yield {
    fn drop(&mut self) {
        self.core.wakeups.streaks().unwatch(&mut self.key);
    }
}

opaque_debug!(Yield);

#[cfg(test)]
#[path = "../tests/fairness.rs"]
mod tests;
