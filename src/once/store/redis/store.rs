use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

use super::{
    RedisGet, RedisPut, RedisStoreBuilder,
    client::Asked,
    worker::{Counted, Job, Question},
};
use crate::{
    error::{BuildError, LockError},
    lock::Spawner,
    once::{ResponseStore, StoreError, StoredResponse},
    time::{MAX_DURATION, Timers},
    token::FencingToken,
};

/// A [`ResponseStore`] on a Redis (or Valkey) server: one that is **not** among the lock's nodes, so
/// that answers never take the memory that locks need.
///
/// Recommended for answers above some kB, and where there are many: one server keeps each answer
/// once, all replicas find it there, and where it is full or down, locks go on. What is lost with it
/// are answers, not that requests are done: while it is down, repeated requests are answered 503
/// (`store-unavailable`), and those whose answers it has lost or evicted 409 (`response-not-kept`). So
/// it may evict (`maxmemory-policy volatile-ttl`), and need not keep its data.
///
/// An answer is put by one script, which compares fencing tokens: an older holder's never replaces a
/// newer one's. It expires with its `retain`.
///
/// One connection, on a thread of the store's own, is opened when there is something to put or get,
/// and opened anew where it broke, or where the server says that it is a replica, loads its data or
/// refuses the login: so a failover behind a virtual address or a DNS name is followed, and credentials
/// may rotate. What is asked at the same time goes in one write. Each put or get ends within
/// [`timeout`](RedisStoreBuilder::timeout), also where the server hangs.
///
/// It needs leave for `+eval +get +set +getrange` on `~{key_prefix}:answer:*`, and for `+select` where
/// the URL names a database.
///
/// Clones are the same store. In a fork of the process that built it, each put and get fails with
/// [`LockError::Forked`], also one that was asked before.
///
/// ```
/// use tower_redlock::{OnceLayer, Redlock, once::{RedisStore, Scope}};
///
/// # fn main() -> Result<(), tower_redlock::BuildError> {
/// let answers = RedisStore::new("redis://app:secret@answers.internal")?;
/// let once = OnceLayer::idempotency(Redlock::embedded(), "payments")
///     .scope(Scope::none())
///     .response_limit(1 << 20)
///     .store(answers);
/// # let _ = once;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    pub(super) shared: Arc<Shared>,
}

/// What all handles of a store have in common.
pub(super) struct Shared {
    /// `host:port/db`; what people see.
    pub(super) server: Arc<str>,
    pub(super) key_prefix: String,
    pub(super) timeout: Duration,
    pub(super) max_bytes: usize,
    pub(super) jobs: mpsc::UnboundedSender<Job>,
    pub(super) under_way: Arc<AtomicUsize>,
    pub(super) timers: Arc<Timers>,
    /// The process that it was built in: the thread does not go along with a fork.
    pub(super) process: u32,
    /// Keeps the thread.
    pub(super) _spawner: Arc<dyn Spawner>,
}

/// Maximum number of puts and gets that wait for the server.
const MAX_UNDER_WAY: usize = 1_024;

impl RedisStore {
    /// A store on the server with this URL, of the form that the nodes of
    /// [`RedlockBuilder::nodes`](crate::RedlockBuilder::nodes) have, with the default settings.
    ///
    /// # Errors
    ///
    /// [`BuildError`] says what is wrong with the URL. A server that is down is no error: it is
    /// connected when it is up.
    pub fn new(url: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder(url).build()
    }

    /// The same with other settings.
    pub fn builder(url: impl Into<String>) -> RedisStoreBuilder {
        RedisStoreBuilder::new(url.into())
    }

    fn key(&self, key: &str) -> String {
        format!("{}:answer:{key}", self.shared.key_prefix)
    }

    fn ask(&self, question: Question) -> Asked {
        let shared = &self.shared;
        if let Err(forked) = shared.check_process() {
            return Asked::refused(forked);
        }
        let Some(counted) = Counted::new(&shared.under_way, MAX_UNDER_WAY) else {
            let text = format!("{MAX_UNDER_WAY} puts and gets wait for server {}", shared.server);
            return Asked::refused(StoreError::failed(text));
        };
        let (sender, answer) = oneshot::channel();
        let timeout = shared.timers.sleep_until(shared.timers.clock().now() + shared.timeout);
        // Where the thread is gone, the sender is dropped, and the answer says so.
        drop(shared.jobs.send(Job { question, answer: sender, _counted: counted }));
        Asked::Waiting { answer, timeout: Some(timeout), shared: Arc::clone(shared) }
    }
}

impl ResponseStore for RedisStore {
    type Put = RedisPut;
    type Get = RedisGet;

    fn put(
        &self,
        key: &str,
        response: Arc<StoredResponse>,
        retain: Duration,
        token: FencingToken,
    ) -> Self::Put {
        let (bytes, limit) = (response.body().len(), self.shared.max_bytes);
        if bytes > limit {
            let text = format!("a response of {bytes} bytes is above max_bytes ({limit})");
            return RedisPut(Asked::refused(StoreError::failed(text)));
        }
        // The server takes no zero.
        let millis = retain.min(MAX_DURATION).as_millis().max(1);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        RedisPut(self.ask(Question::Put { key: self.key(key), response, token, millis }))
    }

    fn get(&self, key: &str) -> Self::Get {
        RedisGet(self.ask(Question::Get { key: self.key(key) }))
    }
}

impl Shared {
    /// [`LockError::Forked`] in a fork of the process that the store was built in.
    pub(super) fn check_process(&self) -> Result<(), StoreError> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(StoreError::failed(LockError::Forked { built_in: self.process }))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // In a fork, another thread of the parent may have held the mutex.
        if self.check_process().is_ok() {
            self.timers.close();
        }
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("server", &self.shared.server).finish_non_exhaustive()
    }
}
