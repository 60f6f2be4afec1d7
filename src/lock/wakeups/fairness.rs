//! How long this process may keep a name that others wait for.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Context,
    time::Duration,
};

use crate::{
    lock::watchers::{Watch, Watchers},
    resource::Resource,
    time::Timestamp,
};

/// Maximum duration of a streak in which a process re-acquires a name without a pause.
pub(super) const LONGEST_STREAK: Duration = Duration::from_millis(5);
/// Maximum duration of a streak in which a process serves its local line a second time.
const LONG_TURN: Duration = Duration::from_millis(20);
/// Age from which information about waiters is stale.
const STALE: Duration = Duration::from_secs(1);
/// Number of names from which on stale ones are removed, once in [`STALE`].
const MANY: usize = 64;

/// Streaks: names that this process holds again and again while other processes wait for them.
///
/// An acquire that directly follows a release finds the name free on every node, before any waiter
/// is told. Without a rule, one process could keep a name for ever. So at the end of a streak a lease
/// is handed on for at most one more pass of the local line, or two short ones, and the next in line
/// pauses before it asks the nodes. A process that held a name for the length of a streak asks
/// again only when a node has answered whether others wait. Where nobody waits there is no streak,
/// and nobody pauses.
///
/// Waiters may be farther away than the pause is long. So each pause is longer than the one before,
/// until another process has held the name.
#[derive(Debug, Default)]
pub(super) struct Streaks {
    /// Whether there are any. Mostly there are none.
    any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: HashMap<Arc<str>, Streak>,
    /// When stale names were removed last.
    removed_at: Option<Timestamp>,
    /// Tasks that pause until a node has answered whether others wait.
    watchers: Watchers,
}

#[derive(Clone, Copy, Debug)]
struct Streak {
    /// Start of the streak; `None` from a pause until the next release.
    since: Option<Timestamp>,
    seen: Seen,
    /// Number of pauses since another process held the name.
    pauses: u32,
}

#[derive(Clone, Copy, Debug)]
enum Seen {
    /// Released then; no node has answered yet.
    Not(Timestamp),
    /// Others listened when this process was granted the name, then.
    Maybe(Timestamp),
    /// Somebody was last found to wait then.
    At(Timestamp),
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Ours,
    Others,
    /// Released just now after a long hold; no node has answered yet.
    Unknown,
}

impl Streaks {
    /// This process was granted the names, while others listened.
    pub(super) fn begin(&self, resource: &Resource, since: Timestamp, now: Timestamp) {
        let mut state = crate::sync::lock(&self.state);
        state.forget_stale(now);
        for name in resource.shared_names() {
            let new = Streak { seen: Seen::Maybe(now), ..Streak::new(since, now) };
            let streak = state.names.entry(Arc::clone(name)).or_insert(new);
            if streak.is_stale(now) {
                *streak = new;
            }
            streak.since.get_or_insert(since);
        }
        self.any.store(true, Ordering::Release);
    }

    /// The names are being given back by whoever had them since then.
    pub(super) fn returning(&self, resource: &Resource, since: Timestamp, now: Timestamp) {
        if now.saturating_duration_since(since) < LONGEST_STREAK {
            return;
        }
        let mut state = crate::sync::lock(&self.state);
        state.forget_stale(now);
        for name in resource.shared_names() {
            let streak = state.names.entry(Arc::clone(name)).or_insert(Streak::new(since, now));
            if streak.is_stale(since) {
                *streak = Streak::new(since, now);
            }
            streak.since.get_or_insert(since);
            // Who waited before this lease may have left while it was held for so long.
            if streak.is_unconfirmed(now) {
                streak.seen = Seen::Not(now);
            }
        }
        self.any.store(true, Ordering::Release);
    }

    /// A node answered the release of names that this process had since then: whether somebody waits
    /// for one of them.
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
                let new = Streak::new(since, now);
                let streak = state.names.entry(Arc::clone(name)).or_insert(new);
                if streak.is_stale(now) {
                    *streak = new;
                }
                streak.since.get_or_insert(since);
                streak.seen = Seen::At(now);
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

    /// Whether this process may hand the names on, after everyone who stood in line at the grant has
    /// had them so many times.
    pub(super) fn is_in_turn(&self, resource: &Resource, passes: usize, now: Timestamp) -> bool {
        let state = crate::sync::lock(&self.state);
        let mut streaks = resource.shared_names().iter().filter_map(|name| state.names.get(name));
        streaks.all(|streak| {
            let lasts =
                streak.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
            let is_unknown = streak.is_stale(now) || matches!(streak.seen, Seen::Not(_));
            is_unknown || lasts < LONGEST_STREAK || passes < 1 || (passes < 2 && lasts < LONG_TURN)
        })
    }

    /// Whose turn it is.
    pub(super) fn turn(&self, resource: &Resource, now: Timestamp) -> Turn {
        crate::sync::lock(&self.state).turn(resource, now)
    }

    /// As [`turn`](Self::turn); the task is woken once more is known.
    pub(super) fn watch(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
        (resource, now): (&Resource, Timestamp),
    ) -> Turn {
        let waker = crate::sync::clone_waker(cx.waker());
        let mut state = crate::sync::lock(&self.state);
        let replaced = state.watchers.watch(&mut watch.0, waker);
        let turn = state.turn(resource, now);
        drop(state);
        drop(replaced);
        turn
    }

    pub(super) fn forget(&self, watch: &mut Watch) {
        if let Some(key) = watch.0.take() {
            let waker = crate::sync::lock(&self.state).watchers.forget(key);
            drop(waker);
        }
    }

    /// The others are to have their turn: a new streak begins behind a pause. How often that was so
    /// before, and in vain.
    pub(super) fn give_way(&self, resource: &Resource) -> u32 {
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

    /// Somebody else has had a turn.
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

impl State {
    fn turn(&self, resource: &Resource, now: Timestamp) -> Turn {
        let mut turn = Turn::Ours;
        for streak in resource.shared_names().iter().filter_map(|name| self.names.get(name)) {
            match streak.seen {
                _ if streak.is_stale(now) => {}
                Seen::Not(_) => turn = Turn::Unknown,
                Seen::At(_) if streak.is_long(now) => return Turn::Others,
                Seen::Maybe(_) | Seen::At(_) => {}
            }
        }
        turn
    }

    /// Not at each call: that would look at all names for each of them.
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
    /// Nobody was seen yet.
    fn new(since: Timestamp, now: Timestamp) -> Self {
        Self { since: Some(since), seen: Seen::Not(now), pauses: 0 }
    }

    /// Nobody is known to wait.
    fn is_unconfirmed(&self, now: Timestamp) -> bool {
        !matches!(self.seen, Seen::At(_)) || self.is_stale(now)
    }

    fn is_long(&self, now: Timestamp) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= LONGEST_STREAK)
    }

    fn is_stale(&self, now: Timestamp) -> bool {
        let (Seen::Not(at) | Seen::Maybe(at) | Seen::At(at)) = self.seen;
        now.saturating_duration_since(at) >= STALE
    }
}

#[cfg(test)]
mod tests;
