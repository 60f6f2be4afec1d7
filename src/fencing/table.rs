//! A table of newest tokens with bounded size.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    task::Waker,
};

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
#[derive(Debug)]
pub(super) struct TokenTable {
    entries: HashMap<Arc<str>, TokenEntry>,
    /// Resources without a running request, by their last use. The first one is evicted first.
    idle: BTreeMap<u64, Arc<str>>,
    uses: u64,
    capacity: usize,
}

#[derive(Debug)]
struct TokenEntry {
    name: Arc<str>,
    newest_token: Arc<NewestToken>,
    running: usize,
    /// The key in `idle` while no request runs.
    used: u64,
}

impl TokenTable {
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), idle: BTreeMap::new(), uses: 0, capacity }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the newest token of a resource. Counts as a use.
    pub(super) fn look(&mut self, name: &str) -> Option<u64> {
        let entry = self.entries.get_mut(name)?;
        if entry.running == 0
            && let Some(name) = self.idle.remove(&entry.used)
        {
            self.uses += 1;
            entry.used = self.uses;
            self.idle.insert(entry.used, name);
        }
        Some(entry.newest_token.newest())
    }

    /// Begins a request whose token is not older than the newest one. The entry stays until the
    /// request has ended. `woken` gets the wakers of the requests that it overtakes.
    pub(super) fn begin(
        &mut self,
        name: &Arc<str>,
        token: u64,
        woken: &mut Vec<Waker>,
    ) -> Arc<NewestToken> {
        if !self.entries.contains_key(name) {
            while self.len() >= self.capacity && self.evict() {}
        }
        let entry = self.entries.entry(Arc::clone(name)).or_insert_with(|| TokenEntry {
            name: Arc::clone(name),
            newest_token: Arc::new(NewestToken::new(token)),
            running: 0,
            used: 0,
        });
        if entry.running == 0 {
            self.idle.remove(&entry.used);
        }
        entry.running += 1;
        entry.newest_token.raise(token, woken);
        Arc::clone(&entry.newest_token)
    }

    /// Ends a request.
    pub(super) fn end(&mut self, name: &str) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.running -= 1;
        if entry.running == 0 {
            sync::lock(entry.newest_token.watchers()).shrink();
            self.uses += 1;
            entry.used = self.uses;
            self.idle.insert(entry.used, Arc::clone(&entry.name));
            while self.len() > self.capacity && self.evict() {}
        }
    }

    /// Evicts the least recently used resource without a running request, if there is one.
    fn evict(&mut self) -> bool {
        let Some((_, name)) = self.idle.pop_first() else { return false };
        self.entries.remove(&name);
        true
    }
}
