use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
};

use crate::{lock::WakerSet, sync};

/// The newest token of one resource, and the requests to be told of a newer one.
#[derive(Debug)]
pub(super) struct Mark {
    newest: AtomicU64,
    watchers: Mutex<WakerSet>,
}

impl Mark {
    fn new(token: u64) -> Self {
        Self { newest: AtomicU64::new(token), watchers: Mutex::default() }
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }

    pub(super) fn watchers(&self) -> &Mutex<WakerSet> {
        &self.watchers
    }

    fn raise(&self, token: u64, woken: &mut Vec<Waker>) {
        if token > self.newest() {
            self.newest.store(token, Ordering::SeqCst);
            // After the store: whoever registers later sees the new token.
            sync::lock(&self.watchers).take(woken);
        }
    }
}

/// The marks of at most so many resources, and of all that have a request running.
///
/// Every operation takes a constant number of steps. Entries without running requests form a list,
/// linked by their places, from the least to the most recently used; what goes out is its head.
#[derive(Debug)]
pub(super) struct Table {
    entries: Vec<Entry>,
    places: HashMap<Arc<str>, usize>,
    free: Vec<usize>,
    oldest: Option<usize>,
    latest: Option<usize>,
    capacity: usize,
}

#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    mark: Arc<Mark>,
    running: usize,
    /// Its neighbours in the list; `None` at the ends, and while requests run.
    older: Option<usize>,
    later: Option<usize>,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Self {
        let (entries, places, free) = (Vec::new(), HashMap::new(), Vec::new());
        Self { entries, places, free, oldest: None, latest: None, capacity }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The newest token of a resource, which counts as used now.
    pub(super) fn look(&mut self, name: &str) -> Option<u64> {
        let place = *self.places.get(name)?;
        if self.entries[place].running == 0 {
            self.unlink(place);
            self.link_latest(place);
        }
        Some(self.entries[place].mark.newest())
    }

    /// A request with a token that is not older than the newest begins: the entry stays until it
    /// has ended. Those to be woken are the requests that it overtakes.
    pub(super) fn begin(
        &mut self,
        name: &Arc<str>,
        token: u64,
        woken: &mut Vec<Waker>,
    ) -> (usize, Arc<Mark>) {
        let place = match self.places.get(name) {
            Some(&place) => {
                if self.entries[place].running == 0 {
                    self.unlink(place);
                }
                place
            }
            None => self.insert(Arc::clone(name), token),
        };
        let entry = &mut self.entries[place];
        entry.running += 1;
        entry.mark.raise(token, woken);
        (place, Arc::clone(&entry.mark))
    }

    /// A request has ended.
    pub(super) fn end(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        entry.running -= 1;
        if entry.running == 0 {
            sync::lock(entry.mark.watchers()).shrink();
            self.link_latest(place);
            while self.len() > self.capacity && self.evict() {}
        }
    }

    fn insert(&mut self, name: Arc<str>, token: u64) -> usize {
        while self.len() >= self.capacity && self.evict() {}
        let mark = Arc::new(Mark::new(token));
        let entry = Entry { name: Arc::clone(&name), mark, running: 0, older: None, later: None };
        let place = if let Some(place) = self.free.pop() {
            self.entries[place] = entry;
            place
        } else {
            self.entries.push(entry);
            self.entries.len() - 1
        };
        self.places.insert(name, place);
        place
    }

    /// Forgets the resource that was not used for the longest time, if one has no request running.
    fn evict(&mut self) -> bool {
        let Some(place) = self.oldest else { return false };
        self.unlink(place);
        self.places.remove(&self.entries[place].name);
        self.free.push(place);
        true
    }

    fn link_latest(&mut self, place: usize) {
        let older = self.latest.replace(place);
        self.entries[place].older = older;
        match older {
            Some(older) => self.entries[older].later = Some(place),
            None => self.oldest = Some(place),
        }
    }

    fn unlink(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        let (older, later) = (entry.older.take(), entry.later.take());
        match older {
            Some(older) => self.entries[older].later = later,
            None => self.oldest = later,
        }
        match later {
            Some(later) => self.entries[later].older = older,
            None => self.latest = older,
        }
    }
}
