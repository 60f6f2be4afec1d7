//! A store in this process's memory.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::ready,
    sync::Arc,
    time::Duration,
};

use super::{ResponseStore, StoreError, StoreFuture, StoredBy};
use crate::{
    once::StoredResponse,
    sync::{self, Mutex},
    time::{Clock, SystemClock, Timestamp},
    token::FencingToken,
};

/// Default capacity of a [`MemoryStore`], in responses.
pub const DEFAULT_STORE_CAPACITY: usize = 10_000;

/// A [`ResponseStore`] in the memory of this process: for tests, and for services of one process.
///
/// Clones share their responses; other processes don't see them, and a restart loses them. Above the
/// capacity, by default [`DEFAULT_STORE_CAPACITY`] responses, the response that would expire next is
/// removed: its key then counts as done without a response.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use tower_redlock::{FencingToken, once::{MemoryStore, ResponseStore, StoredHeaders, StoredResponse}};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tower_redlock::once::StoreError> {
/// let (parts, body) = http::Response::new("done".into()).into_parts();
/// let response = Arc::new(StoredResponse::new(&parts, body, &StoredHeaders::default()));
/// let store = MemoryStore::new();
/// let (day, token) = (Duration::from_secs(24 * 3600), FencingToken::new(7));
/// store.put("payment:1", response, day, token).await?;
/// assert_eq!(store.get("payment:1").await?.unwrap().response.body(), "done");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    table: Arc<Mutex<ResponseTable>>,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// Creates an empty store with the default capacity.
    pub fn new() -> Self {
        Self::with_capacity(DEFAULT_STORE_CAPACITY)
    }

    /// Creates an empty store of at most `capacity` responses.
    pub fn with_capacity(capacity: usize) -> Self {
        let table = Arc::new(Mutex::new(ResponseTable::new(capacity)));
        Self { table, clock: Arc::new(SystemClock::new()) }
    }

    /// Sets the clock; call it before the store is used or cloned. Default: the system's clock, which
    /// counts suspended time.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = clock.into_kept();
        self
    }

    /// Returns the number of responses, with expired ones that are not yet removed.
    pub fn len(&self) -> usize {
        sync::lock(&self.table).len()
    }

    /// Returns whether it has no responses.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseStore for MemoryStore {
    fn put(
        &self,
        key: &str,
        response: Arc<StoredResponse>,
        retain: Duration,
        token: FencingToken,
    ) -> StoreFuture<()> {
        let now = self.clock.now();
        let stored = StoredBy { token, response };
        let mut removed = Vec::new();
        let put = sync::lock(&self.table).put(key, stored, (now, now + retain), &mut removed);
        drop(removed);
        Box::pin(ready(put))
    }

    fn get(&self, key: &str) -> StoreFuture<Option<StoredBy>> {
        let now = self.clock.now();
        Box::pin(ready(Ok(sync::lock(&self.table).get(key, now))))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("responses", &self.len()).finish_non_exhaustive()
    }
}

/// Responses by their keys and by their expiry.
#[derive(Debug)]
struct ResponseTable {
    entries: HashMap<Arc<str>, ResponseEntry>,
    /// The keys in the order of expiry. The number keeps entries of one moment apart.
    expiries: BTreeMap<Expiry, Arc<str>>,
    next: u64,
    capacity: usize,
}

type Expiry = (Timestamp, u64);

#[derive(Debug)]
struct ResponseEntry {
    stored: StoredBy,
    expiry: Expiry,
}

impl ResponseTable {
    fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), expiries: BTreeMap::new(), next: 0, capacity }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    /// The caller drops `removed` outside the mutex: a body may be foreign code.
    fn put(
        &mut self,
        key: &str,
        stored: StoredBy,
        (now, until): (Timestamp, Timestamp),
        removed: &mut Vec<StoredBy>,
    ) -> Result<(), StoreError> {
        while self.expiries.first_key_value().is_some_and(|((expiry, _), _)| *expiry <= now) {
            removed.extend(self.remove_first());
        }
        if let Some(entry) = self.entries.get(key) {
            if entry.stored.token > stored.token {
                removed.push(stored);
                return Err(StoreError::Stale);
            }
            self.expiries.remove(&entry.expiry);
        }
        let (key, expiry) = (Arc::<str>::from(key), (until, self.next));
        self.next += 1;
        self.expiries.insert(expiry, Arc::clone(&key));
        removed.extend(
            self.entries.insert(key, ResponseEntry { stored, expiry }).map(|entry| entry.stored),
        );
        while self.len() > self.capacity {
            removed.extend(self.remove_first());
        }
        debug_assert!(self.len() <= self.capacity && self.expiries.len() == self.len());
        Ok(())
    }

    fn get(&self, key: &str, now: Timestamp) -> Option<StoredBy> {
        let ResponseEntry { stored, expiry } = self.entries.get(key)?;
        (expiry.0 > now).then(|| stored.clone())
    }

    fn remove_first(&mut self) -> Option<StoredBy> {
        let (expiry, key) = self.expiries.pop_first()?;
        let removed = self.entries.remove(&key)?;
        debug_assert_eq!(removed.expiry, expiry, "the table has one expiry of each response");
        Some(removed.stored)
    }
}
