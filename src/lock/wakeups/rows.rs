use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use crate::{
    lock::watchers::{Watch, Watchers},
    resource::Resource,
    time::Timestamp,
};

/// So long a process may take a name again and again, while others wait for it.
const LONGEST_ROW: Duration = Duration::from_millis(5);
/// Who was told nothing for so long knows nothing of who waits.
const STALE: Duration = Duration::from_secs(1);
/// Of more names than these what is stale is forgotten.
const MANY: usize = 64;

/// Names that others waited for when this process gave them back.
///
/// An acquire that comes right behind a release finds the name free on every node, before anybody
/// who waits has been told: without a rule one process could keep it for ever. So once a row is
/// over, nothing is handed on within the process any more, and the next in line pauses before it
/// asks the nodes. Whoever held a name for as long as a row asks for it again only when a node has
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
            if row.is_stale(now) {
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
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
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
        let mut state = crate::sync::lock(&self.state);
        let replaced = state.watchers.watch(&mut watch.0, cx.waker());
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
                Seen::At(_) => {
                    if row.since.is_some_and(|since| now.since(since) >= LONGEST_ROW) {
                        return Turn::Others;
                    }
                }
            }
        }
        turn
    }

    fn forget_stale(&mut self, now: Timestamp) {
        if self.names.len() >= MANY {
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
        matches!(self.seen, Seen::Not(_)) || self.is_stale(now)
    }

    fn is_stale(&self, now: Timestamp) -> bool {
        let (Seen::Not(at) | Seen::At(at)) = self.seen;
        now.since(at) >= STALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000) + Duration::from_millis(ms)
    }

    /// Given back at `ms` by one who had it since then, and somebody waits.
    fn awaited(rows: &Rows, resource: &Resource, ms: u64) {
        rows.returned(resource, true, (at(ms), at(ms)));
    }

    #[test]
    fn a_process_gives_way_once_in_a_row_and_only_while_others_wait() {
        let (rows, a) = (Rows::default(), Resource::try_from("a").unwrap());
        assert_eq!(rows.turn(&a, at(0)), Turn::Ours);
        awaited(&rows, &a, 0);
        assert_eq!(rows.turn(&a, at(4)), Turn::Ours, "the row is short");
        awaited(&rows, &a, 4);
        assert_eq!(rows.turn(&a, at(5)), Turn::Others);
        rows.end(&a);
        assert_eq!(rows.turn(&a, at(6)), Turn::Ours, "it gave way");
        // Somebody else had a turn in between.
        awaited(&rows, &a, 10);
        rows.end(&a);
        assert_eq!(rows.turn(&a, at(20)), Turn::Ours);
        awaited(&rows, &a, 10);
        assert_eq!(rows.turn(&a, at(15)), Turn::Others);
        assert_eq!(rows.give_way(&a), 0);
        assert_eq!(rows.turn(&a, at(16)), Turn::Ours, "a pause ends the row");
        awaited(&rows, &a, 20);
        assert_eq!(rows.turn(&a, at(24)), Turn::Ours, "the next one begins");
        assert_eq!(rows.turn(&a, at(25)), Turn::Others);
        assert_eq!([rows.give_way(&a), rows.give_way(&a)], [1, 2]);
        rows.end(&a);
        // Long ago.
        awaited(&rows, &a, 30);
        assert_eq!(rows.turn(&a, at(1_031)), Turn::Ours);
        rows.give_way(&a);
        awaited(&rows, &a, 2_000);
        assert_eq!(rows.give_way(&a), 0, "others wait now");
        rows.end(&a);
        // A new row, which began when the lease did.
        rows.returned(&a, true, (at(1_040), at(1_042)));
        assert_eq!(rows.turn(&a, at(1_044)), Turn::Ours);
        assert_eq!(rows.turn(&a, at(1_045)), Turn::Others);
    }

    #[test]
    fn who_held_for_long_waits_for_the_first_answer() {
        let (rows, a) = (Rows::default(), Resource::try_from("a").unwrap());
        rows.returning(&a, at(0), at(4));
        assert_eq!(rows.turn(&a, at(4)), Turn::Ours, "that was short");
        rows.returning(&a, at(0), at(6));
        assert_eq!(rows.turn(&a, at(6)), Turn::Unknown);
        rows.returned(&a, false, (at(0), at(7)));
        assert_eq!(rows.turn(&a, at(7)), Turn::Ours);
        rows.returning(&a, at(10), at(20));
        rows.returned(&a, true, (at(10), at(21)));
        rows.returned(&a, false, (at(10), at(22)));
        assert_eq!(rows.turn(&a, at(22)), Turn::Others, "one node that knows is enough");
    }

    #[test]
    fn who_held_for_so_long_that_nothing_is_known_any_more_waits_for_an_answer_again() {
        let (rows, a) = (Rows::default(), Resource::try_from("a").unwrap());
        for round in 0..3 {
            let (since, until) = (at(round * 2_000), at((round + 1) * 2_000 - 10));
            rows.returning(&a, since, until);
            assert_eq!(rows.turn(&a, until), Turn::Unknown);
            rows.returned(&a, true, (since, until));
            assert_eq!(rows.turn(&a, until), Turn::Others);
            assert_eq!(u64::from(rows.give_way(&a)), round, "nobody else had it");
        }
        rows.returning(&a, at(8_000), at(8_010));
        assert_eq!(rows.give_way(&a), 0, "it was not asked for meanwhile");
        // Nobody answers that, and much later somebody holds it again.
        rows.returning(&a, at(9_050), at(9_060));
        assert_eq!(rows.turn(&a, at(9_060)), Turn::Unknown);
        rows.returned(&a, false, (at(9_050), at(9_061)));
        assert!(!rows.any(), "nobody waits");
        awaited(&rows, &a, 9_100);
        rows.returned(&a, false, (at(9_100), at(10_101)));
        assert!(!rows.any(), "nobody was seen for long");
    }

    #[test]
    fn many_names_are_not_remembered_for_long() {
        let rows = Rows::default();
        let name = |i: usize| Resource::try_from(format!("n{i}")).unwrap();
        for i in 0..500 {
            awaited(&rows, &name(i), 0);
            rows.returning(&name(i + 500), at(0), at(6));
        }
        awaited(&rows, &name(0), 2_000);
        assert_eq!(rows.state.lock().unwrap().names.len(), 1);
        rows.end(&name(0));
        assert!(!rows.any());
    }
}
