use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{resource::Resource, time::Timestamp};

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
/// asks the nodes. Where nobody else waits there is no row, and nobody pauses.
///
/// Who waits may be farther away than the pause is long. So each pause is longer than the one
/// before, until somebody else has had the name.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Whether there are any: nearly always there are none.
    any: AtomicBool,
    names: Mutex<HashMap<Arc<str>, Row>>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// `None` from a pause on, until the name is given back again.
    since: Option<Timestamp>,
    /// When somebody was last found to wait.
    seen: Timestamp,
    /// How often this process gave way, and nobody else had the name.
    gave_way: u32,
}

impl Rows {
    /// The names were given back, and somebody waits for one of them.
    pub(super) fn awaited(&self, resource: &Resource, now: Timestamp) {
        let mut names = crate::sync::lock(&self.names);
        if names.len() >= MANY {
            names.retain(|_, row| now.since(row.seen) < STALE);
        }
        for name in resource.shared_names() {
            let new = Row { since: Some(now), seen: now, gave_way: 0 };
            let row = names.entry(Arc::clone(name)).or_insert(new);
            if now.since(row.seen) >= STALE {
                *row = new;
            }
            row.since.get_or_insert(now);
            row.seen = now;
        }
        self.any.store(true, Ordering::Release);
    }

    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether it is the others' turn.
    pub(super) fn is_over(&self, resource: &Resource, now: Timestamp) -> bool {
        let names = crate::sync::lock(&self.names);
        let is_long = |row: &Row| {
            row.since.is_some_and(|since| now.since(since) >= LONGEST_ROW)
                && now.since(row.seen) < STALE
        };
        resource.shared_names().iter().filter_map(|name| names.get(name)).any(is_long)
    }

    /// The others are to have their turn: a new row begins behind a pause. How often that was so
    /// before, and in vain.
    pub(super) fn give_way(&self, resource: &Resource) -> u32 {
        let mut names = crate::sync::lock(&self.names);
        let mut before = 0;
        for name in resource.shared_names() {
            let Some(row) = names.get_mut(name) else { continue };
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
        let mut names = crate::sync::lock(&self.names);
        for name in resource.shared_names() {
            names.remove(name);
        }
        self.any.store(!names.is_empty(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000) + Duration::from_millis(ms)
    }

    #[test]
    fn a_process_gives_way_once_in_a_row_and_only_while_others_wait() {
        let (rows, a) = (Rows::default(), Resource::try_from("a").unwrap());
        assert!(!rows.is_over(&a, at(0)));
        rows.awaited(&a, at(0));
        assert!(!rows.is_over(&a, at(4)), "the row is short");
        rows.awaited(&a, at(4));
        assert!(rows.is_over(&a, at(5)));
        rows.end(&a);
        assert!(!rows.is_over(&a, at(6)), "it gave way");
        // Somebody else had a turn in between.
        rows.awaited(&a, at(10));
        rows.end(&a);
        assert!(!rows.is_over(&a, at(20)));
        rows.awaited(&a, at(10));
        assert!(rows.is_over(&a, at(15)));
        assert_eq!(rows.give_way(&a), 0);
        assert!(!rows.is_over(&a, at(16)), "a pause ends the row");
        rows.awaited(&a, at(20));
        assert!(!rows.is_over(&a, at(24)) && rows.is_over(&a, at(25)), "the next one begins");
        assert_eq!([rows.give_way(&a), rows.give_way(&a)], [1, 2]);
        rows.end(&a);
        // Long ago.
        rows.awaited(&a, at(30));
        assert!(!rows.is_over(&a, at(1_031)));
        rows.give_way(&a);
        rows.awaited(&a, at(2_000));
        assert_eq!(rows.give_way(&a), 0, "others wait now");
    }

    #[test]
    fn many_names_are_not_remembered_for_long() {
        let rows = Rows::default();
        let name = |i: usize| Resource::try_from(format!("n{i}")).unwrap();
        (0..1_000).for_each(|i| rows.awaited(&name(i), at(0)));
        rows.awaited(&name(0), at(2_000));
        assert_eq!(rows.names.lock().unwrap().len(), 1);
        rows.end(&name(0));
        assert!(!rows.any.load(Ordering::Relaxed));
    }
}
