use std::{
    fmt,
    future::{Ready, ready},
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{ResponseStore, StoreError, StoredBy, table::Table};
use crate::{
    once::StoredResponse,
    sync,
    time::{Clock, SystemClock},
    token::FencingToken,
};

/// How many responses a [`MemoryStore`] keeps where nothing else is said.
pub const DEFAULT_STORE_CAPACITY: usize = 10_000;

/// Keeps responses in the memory of this process: for tests, and for services of one process.
///
/// Clones share what they keep. Other processes know nothing of it, and a restart forgets it. Of
/// more than [`DEFAULT_STORE_CAPACITY`] responses, or as many as [`with_capacity`](Self::with_capacity)
/// says, those go whose time would be over next: a key then counts as done without a response. It
/// takes as much memory as that many responses and keys.
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
    table: Arc<Mutex<Table>>,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// An empty store with the default capacity.
    pub fn new() -> Self {
        Self::with_capacity(DEFAULT_STORE_CAPACITY)
    }

    /// An empty store that keeps at most so many responses; with zero, none.
    pub fn with_capacity(capacity: usize) -> Self {
        let table = Arc::new(Mutex::new(Table::new(capacity)));
        Self { table, clock: Arc::new(SystemClock::new()) }
    }

    /// Reads the time from `clock`. To be called before the store is used or cloned. Default: the
    /// system's clock, which counts suspended time.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How many responses it keeps, those included whose time is over and which nobody has missed.
    pub fn len(&self) -> usize {
        sync::lock(&self.table).len()
    }

    /// Whether it keeps none.
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
    type Put = Ready<Result<(), StoreError>>;
    type Get = Ready<Result<Option<StoredBy>, StoreError>>;

    fn put(
        &self,
        key: &str,
        response: Arc<StoredResponse>,
        retain: Duration,
        token: FencingToken,
    ) -> Self::Put {
        let now = self.clock.now();
        let stored = StoredBy { token, response };
        let mut gone = Vec::new();
        let put = sync::lock(&self.table).put(key, stored, (now, now + retain), &mut gone);
        drop(gone);
        ready(put)
    }

    fn get(&self, key: &str) -> Self::Get {
        let now = self.clock.now();
        ready(Ok(sync::lock(&self.table).get(key, now)))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("responses", &self.len()).finish_non_exhaustive()
    }
}
