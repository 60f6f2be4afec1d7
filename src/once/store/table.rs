use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{StoreError, StoredBy};
use crate::time::Timestamp;

/// Responses by their keys, and by the end of their time.
#[derive(Debug)]
pub(super) struct Table {
    entries: HashMap<Arc<str>, Entry>,
    /// The keys in the order in which they go. The number tells entries of one end apart.
    ends: BTreeMap<End, Arc<str>>,
    next: u64,
    capacity: usize,
}

type End = (Timestamp, u64);

#[derive(Debug)]
struct Entry {
    stored: StoredBy,
    end: End,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), ends: BTreeMap::new(), next: 0, capacity }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What goes is to be dropped when no lock is held: a body may be foreign code.
    pub(super) fn put(
        &mut self,
        key: &str,
        stored: StoredBy,
        (now, until): (Timestamp, Timestamp),
        gone: &mut Vec<StoredBy>,
    ) -> Result<(), StoreError> {
        while self.ends.first_key_value().is_some_and(|((end, _), _)| *end <= now) {
            gone.extend(self.forget_first());
        }
        if let Some(entry) = self.entries.get(key) {
            if entry.stored.token > stored.token {
                gone.push(stored);
                return Err(StoreError::Stale);
            }
            self.ends.remove(&entry.end);
        }
        let (key, end) = (Arc::<str>::from(key), (until, self.next));
        self.next += 1;
        self.ends.insert(end, Arc::clone(&key));
        gone.extend(self.entries.insert(key, Entry { stored, end }).map(|entry| entry.stored));
        while self.len() > self.capacity {
            gone.extend(self.forget_first());
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &str, now: Timestamp) -> Option<StoredBy> {
        let Entry { stored, end } = self.entries.get(key)?;
        (end.0 > now).then(|| stored.clone())
    }

    fn forget_first(&mut self) -> Option<StoredBy> {
        let (_, key) = self.ends.pop_first()?;
        self.entries.remove(&key).map(|entry| entry.stored)
    }
}
