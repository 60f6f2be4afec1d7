//! A table of newest tokens with bounded size.

use std::{collections::HashMap, sync::Arc, task::Waker};

use crate::{
    lock::WakerSet,
    sync::{
        self, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// The newest token of one resource, and the requests to wake when it rises.
#[derive(Debug)]
pub(super) struct NewestToken {
    newest: AtomicU64,
    watchers: Mutex<WakerSet>,
}

impl NewestToken {
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
            // Taken after the store, as a request that registers later sees the new token.
            sync::lock(&self.watchers).take(woken);
        }
    }
}

/// The newest tokens of up to `capacity` resources, and of all that have a running request.
///
/// Every operation takes constant time. Entries without running requests form a list, linked by their
/// places, from the least to the most recently used; its head is evicted first.
#[derive(Debug)]
pub(super) struct TokenTable {
    entries: Vec<TokenEntry>,
    places: HashMap<Arc<str>, usize>,
    free: Vec<usize>,
    oldest: Option<usize>,
    latest: Option<usize>,
    capacity: usize,
}

#[derive(Debug)]
struct TokenEntry {
    name: Arc<str>,
    newest_token: Arc<NewestToken>,
    running: usize,
    /// Its neighbours in the list; `None` at the ends of the list, and while requests run.
    older: Option<usize>,
    later: Option<usize>,
}

impl TokenTable {
    pub(super) fn new(capacity: usize) -> Self {
        let (entries, places, free) = (Vec::new(), HashMap::new(), Vec::new());
        Self { entries, places, free, oldest: None, latest: None, capacity }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the newest token of a resource. Counts as a use.
    pub(super) fn look(&mut self, name: &str) -> Option<u64> {
        let place = *self.places.get(name)?;
        if self.entries[place].running == 0 {
            self.unlink(place);
            self.link_latest(place);
        }
        Some(self.entries[place].newest_token.newest())
    }

    /// Begins a request whose token is not older than the newest one. The entry stays until the
    /// request has ended. `woken` gets the wakers of the requests that it overtakes.
    pub(super) fn begin(
        &mut self,
        name: &Arc<str>,
        token: u64,
        woken: &mut Vec<Waker>,
    ) -> (usize, Arc<NewestToken>) {
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
        entry.newest_token.raise(token, woken);
        (place, Arc::clone(&entry.newest_token))
    }

    /// Ends a request.
    pub(super) fn end(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        entry.running -= 1;
        if entry.running == 0 {
            sync::lock(entry.newest_token.watchers()).shrink();
            self.link_latest(place);
            while self.len() > self.capacity && self.evict() {}
        }
    }

    fn insert(&mut self, name: Arc<str>, token: u64) -> usize {
        while self.len() >= self.capacity && self.evict() {}
        let newest_token = Arc::new(NewestToken::new(token));
        let entry = TokenEntry {
            name: Arc::clone(&name),
            newest_token,
            running: 0,
            older: None,
            later: None,
        };
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

    /// Evicts the least recently used resource without a running request, if there is one.
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
