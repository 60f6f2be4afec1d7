//! A store in this process's memory.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::ready,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;

use super::{ResponseStore, StoreError, StoreFuture, StoredBy};
use crate::{
    lock::WarnThrottle,
    metrics,
    once::StoredResponse,
    sync::{self, Mutex},
    time::{Clock, SystemClock, Timestamp},
    token::FencingToken,
};

/// Default capacity of a [`MemoryStore`], in responses.
pub const DEFAULT_STORE_CAPACITY: usize = 10_000;

/// Default memory of a [`MemoryStore`], in bytes: 64 MiB.
pub const DEFAULT_STORE_BYTES: usize = 64 << 20;

/// Memory of one response in the table, in bytes, besides its key and the response.
const ENTRY_BYTES: usize = 256;

/// A [`ResponseStore`] in the memory of this process: for tests, and for services of one process.
///
/// Clones share their responses; other processes don't see them, and a restart loses them.
///
/// | bound | default |
/// |---|---|
/// | number of responses ([`with_capacity`](Self::with_capacity)) | [`DEFAULT_STORE_CAPACITY`], 10,000 |
/// | bytes ([`max_bytes`](Self::max_bytes)): status, headers, body and key, and 256 for each response | [`DEFAULT_STORE_BYTES`], 64 MiB |
///
/// Above either bound, the responses that would expire next are evicted; of those with one `retain`, the
/// oldest. Their requests are done nevertheless: repetitions don't run, and are answered 409,
/// `response-not-kept`. A response that is larger than `max_bytes` is not stored, and evicts no other. A
/// client with many new keys can evict the responses of others: limit its rate.
///
/// Each eviction counts in `redlock_over_quota_total` (`memory_store`). A WARN, at most one a minute, has
/// their number.
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

    /// Creates an empty store of at most `capacity` responses, and [`DEFAULT_STORE_BYTES`].
    pub fn with_capacity(capacity: usize) -> Self {
        let table = Arc::new(Mutex::new(ResponseTable::new(capacity)));
        Self { table, clock: Arc::new(SystemClock::new()) }
    }

    /// Sets the maximum memory of the responses, in bytes. Default: [`DEFAULT_STORE_BYTES`], 64 MiB.
    /// Responses that are stored stay until the next put. Zero stores nothing.
    #[must_use]
    pub fn max_bytes(self, bytes: usize) -> Self {
        sync::lock(&self.table).max_bytes = bytes;
        self
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

    /// Returns the memory of the responses in bytes, as [`max_bytes`](Self::max_bytes) counts it.
    pub fn bytes(&self) -> usize {
        sync::lock(&self.table).bytes
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
        // A copy: the body may be a small part of a larger allocation, such as a read buffer.
        let stored = EncodedResponse { token, record: response.encode() };
        drop(response);
        let mut table = sync::lock(&self.table);
        let (put, evicted) = match table.put(key, stored, now, now + retain) {
            Ok(evicted) => (Ok(()), evicted),
            Err(error) => (Err(error), 0),
        };
        let count = |warns, _| table.warnings.count(now).or(warns);
        let warns = (0..evicted).fold(None, count);
        let (responses, max_bytes) = (table.len(), table.max_bytes);
        drop(table);
        for _ in 0..evicted {
            metrics::over_quota("memory_store");
        }
        if let Some(evicted) = warns {
            crate::log::warn!(
                evicted,
                responses,
                max_bytes,
                "the MemoryStore is full: responses are evicted before their time, and repeated requests \
                 get response-not-kept; raise its bounds, keep responses for less time (retain), or use a \
                 RedisStore"
            );
        }
        Box::pin(ready(put))
    }

    fn get(&self, key: &str) -> StoreFuture<Option<StoredBy>> {
        let now = self.clock.now();
        let found = sync::lock(&self.table).get(key, now);
        Box::pin(ready(found.map(EncodedResponse::decode).transpose()))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("responses", &self.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
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
    max_bytes: usize,
    /// The sum over the entries.
    bytes: usize,
    warnings: WarnThrottle,
}

type Expiry = (Timestamp, u64);

/// A response as bytes of its own, with the token of its holder.
#[derive(Clone, Debug)]
struct EncodedResponse {
    token: FencingToken,
    record: Bytes,
}

impl EncodedResponse {
    fn decode(self) -> Result<StoredBy, StoreError> {
        let response = StoredResponse::decode(self.record).map_err(StoreError::failed)?;
        Ok(StoredBy { token: self.token, response: Arc::new(response) })
    }
}

#[derive(Debug)]
struct ResponseEntry {
    stored: EncodedResponse,
    expiry: Expiry,
}

impl ResponseEntry {
    fn bytes(&self, key: &str) -> usize {
        bytes(key, &self.stored)
    }
}

fn bytes(key: &str, stored: &EncodedResponse) -> usize {
    ENTRY_BYTES.saturating_add(key.len()).saturating_add(stored.record.len())
}

impl ResponseTable {
    fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            expiries: BTreeMap::new(),
            next: 0,
            capacity,
            max_bytes: DEFAULT_STORE_BYTES,
            bytes: 0,
            warnings: WarnThrottle::default(),
        }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of responses that were evicted before their expiry.
    fn put(
        &mut self,
        key: &str,
        stored: EncodedResponse,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<u64, StoreError> {
        while self.expiries.first_key_value().is_some_and(|((expiry, _), _)| *expiry <= now) {
            self.remove_first();
        }
        if let Some(entry) = self.entries.get(key) {
            if entry.stored.token > stored.token {
                return Err(StoreError::Stale);
            }
            let expiry = entry.expiry;
            self.remove(expiry);
        }
        let (bytes, max_bytes) = (bytes(key, &stored), self.max_bytes);
        if bytes > max_bytes {
            let text = format!("a response of {bytes} bytes is above max_bytes ({max_bytes})");
            return Err(StoreError::failed(text));
        }
        let (key, expiry) = (Arc::<str>::from(key), (until, self.next));
        self.next += 1;
        self.expiries.insert(expiry, Arc::clone(&key));
        self.entries.insert(key, ResponseEntry { stored, expiry });
        self.bytes += bytes;
        let mut evicted = 0;
        while self.len() > self.capacity || self.bytes > self.max_bytes {
            self.remove_first();
            evicted += 1;
        }
        debug_assert!(self.len() <= self.capacity && self.expiries.len() == self.len());
        debug_assert!(!self.entries.is_empty() || self.bytes == 0, "each entry is counted once");
        Ok(evicted)
    }

    fn get(&self, key: &str, now: Timestamp) -> Option<EncodedResponse> {
        let ResponseEntry { stored, expiry } = self.entries.get(key)?;
        (expiry.0 > now).then(|| stored.clone())
    }

    fn remove_first(&mut self) {
        if let Some((&expiry, _)) = self.expiries.first_key_value() {
            self.remove(expiry);
        }
    }

    fn remove(&mut self, expiry: Expiry) {
        let key = self.expiries.remove(&expiry).expect("the table has it");
        let removed = self.entries.remove(&key).expect("each expiry has its response");
        debug_assert_eq!(removed.expiry, expiry, "the table has one expiry of each response");
        self.bytes -= removed.bytes(&key);
    }
}
