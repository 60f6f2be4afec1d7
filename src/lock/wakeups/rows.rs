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
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Whether there are any: nearly always there are none.
    any: AtomicBool,
    names: Mutex<HashMap<Arc<str>, Row>>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    since: Timestamp,
    /// When somebody was last found to wait.
    seen: Timestamp,
}

impl Rows {
    /// The names were given back, and somebody waits for one of them.
    pub(super) fn awaited(&self, resource: &Resource, now: Timestamp) {
        let mut names = crate::sync::lock(&self.names);
        if names.len() >= MANY {
            names.retain(|_, row| now.since(row.seen) < STALE);
        }
        for name in resource.shared_names() {
            let row = names.entry(Arc::clone(name)).or_insert(Row { since: now, seen: now });
            if now.since(row.seen) >= STALE {
                row.since = now;
            }
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
        let is_long =
            |row: &Row| now.since(row.since) >= LONGEST_ROW && now.since(row.seen) < STALE;
        resource.shared_names().iter().filter_map(|name| names.get(name)).any(is_long)
    }

    /// Somebody else has had a turn, or is to have one.
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
        // Long ago.
        rows.awaited(&a, at(30));
        assert!(!rows.is_over(&a, at(1_031)));
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
