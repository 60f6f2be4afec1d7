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

/// Time within which a process may take a name again and again, while others wait for it.
pub(super) const LONGEST_ROW: Duration = Duration::from_millis(5);
/// Time within which a process may serve its line a second time, while others wait.
const LONG_TURN: Duration = Duration::from_millis(20);
/// Who was told nothing for so long knows nothing of who waits.
const STALE: Duration = Duration::from_secs(1);
/// Number of names from which on stale ones are removed, once in [`STALE`].
const MANY: usize = 64;

/// Names that others waited for when this process gave them back.
///
/// An acquire that comes right behind a release finds the name free on every node, before anybody
/// who waits has been told: without a rule one process could keep it for ever. So once a row is
/// over, a lease is handed on for one more pass of the line that it found at most, or two if these
/// are short, and the next in line pauses before it asks the nodes. Whoever held a name for as long as a row asks for it again only when a node has
/// said whether others wait. Where nobody else waits there is no row, and nobody pauses.
///
/// Who waits may be farther away than the pause is long. So each pause is longer than the one
/// before, until somebody else has had the name.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Whether there are any: nearly always there are none.
    any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: HashMap<Arc<str>, Row>,
    /// When stale names were removed last.
    removed_at: Option<Timestamp>,
    /// Who pauses until it is known whether others wait.
    watchers: Watchers,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// `None` from a pause on, until the name is given back again.
    since: Option<Timestamp>,
    seen: Seen,
    /// How often this process gave way, and nobody else had the name.
    gave_way: u32,
}

#[derive(Clone, Copy, Debug)]
enum Seen {
    /// Given back then; no node has answered that.
    Not(Timestamp),
    /// Others listened when this process was granted the name, then.
    Maybe(Timestamp),
    /// Somebody was last found to wait then.
    At(Timestamp),
}

/// What a row says to the next in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Ours,
    Others,
    /// Whoever had it gave it back just now, after a long time; no node has answered yet.
    Unknown,
}

impl Rows {
    /// This process was granted the names, while others listened.
    pub(super) fn begin(&self, resource: &Resource, since: Timestamp, now: Timestamp) {
        let mut state = crate::sync::lock(&self.state);
        state.forget_stale(now);
        for name in resource.shared_names() {
            let new = Row { seen: Seen::Maybe(now), ..Row::new(since, now) };
            let row = state.names.entry(Arc::clone(name)).or_insert(new);
            if row.is_stale(now) {
                *row = new;
            }
            row.since.get_or_insert(since);
        }
        self.any.store(true, Ordering::Release);
    }

    /// The names are being given back by whoever had them since then.
    pub(super) fn returning(&self, resource: &Resource, since: Timestamp, now: Timestamp) {
        if now.since(since) < LONGEST_ROW {
            return;
        }
        let mut state = crate::sync::lock(&self.state);
        state.forget_stale(now);
        for name in resource.shared_names() {
            let row = state.names.entry(Arc::clone(name)).or_insert(Row::new(since, now));
            if row.is_stale(since) {
                *row = Row::new(since, now);
            }
            row.since.get_or_insert(since);
            // Who waited before this lease may have left while it was held for so long.
            if row.is_unconfirmed(now) {
                row.seen = Seen::Not(now);
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
                let new = Row::new(since, now);
                let row = state.names.entry(Arc::clone(name)).or_insert(new);
                if row.is_stale(now) {
                    *row = new;
                }
                row.since.get_or_insert(since);
                row.seen = Seen::At(now);
            } else if state.names.get(name).is_some_and(|row| row.is_unconfirmed(now)) {
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
        let mut rows = resource.shared_names().iter().filter_map(|name| state.names.get(name));
        rows.all(|row| {
            let lasts = row.since.map_or(Duration::ZERO, |since| now.since(since));
            let is_unknown = row.is_stale(now) || matches!(row.seen, Seen::Not(_));
            is_unknown || lasts < LONGEST_ROW || passes < 1 || (passes < 2 && lasts < LONG_TURN)
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

    /// The others are to have their turn: a new row begins behind a pause. How often that was so
    /// before, and in vain.
    pub(super) fn give_way(&self, resource: &Resource) -> u32 {
        let mut state = crate::sync::lock(&self.state);
        let mut before = 0;
        for name in resource.shared_names() {
            let Some(row) = state.names.get_mut(name) else { continue };
            before = before.max(row.gave_way);
            row.since = None;
            row.gave_way = row.gave_way.saturating_add(1);
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
        for row in resource.shared_names().iter().filter_map(|name| self.names.get(name)) {
            match row.seen {
                _ if row.is_stale(now) => {}
                Seen::Not(_) => turn = Turn::Unknown,
                Seen::At(_) if row.is_long(now) => return Turn::Others,
                Seen::Maybe(_) | Seen::At(_) => {}
            }
        }
        turn
    }

    /// Not at each call: that would look at all names for each of them.
    fn forget_stale(&mut self, now: Timestamp) {
        if self.names.len() >= MANY && self.removed_at.is_none_or(|at| now.since(at) >= STALE) {
            self.removed_at = Some(now);
            self.names.retain(|_, row| !row.is_stale(now));
        }
    }
}

impl Row {
    /// Nobody was seen yet.
    fn new(since: Timestamp, now: Timestamp) -> Self {
        Self { since: Some(since), seen: Seen::Not(now), gave_way: 0 }
    }

    /// Nobody is known to wait.
    fn is_unconfirmed(&self, now: Timestamp) -> bool {
        !matches!(self.seen, Seen::At(_)) || self.is_stale(now)
    }

    fn is_long(&self, now: Timestamp) -> bool {
        self.since.is_some_and(|since| now.since(since) >= LONGEST_ROW)
    }

    fn is_stale(&self, now: Timestamp) -> bool {
        let (Seen::Not(at) | Seen::Maybe(at) | Seen::At(at)) = self.seen;
        now.since(at) >= STALE
    }
}

#[cfg(test)]
mod tests;
