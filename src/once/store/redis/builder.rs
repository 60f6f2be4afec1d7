//! Settings of the store.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::{Semaphore, mpsc};

use super::{
    RedisStore,
    client::{MAX_PENDING, MAX_PENDING_KIB, StoreClient},
    worker,
};
use crate::{
    error::BuildError,
    lock::{MAX_PREFIX_BYTES, Spawner, check_text, spawner_or_thread},
    node::redis::{AccessOptions, Connector, Credentials, Endpoint, SingleServer, TlsOptions},
    time::{MAX_DURATION, SystemClock, Timers},
};

/// Maximum `max_bytes`, as the size of one reply of a server is bounded.
const MAX_BYTES: usize = 32 << 20;

/// Builds a [`RedisStore`]. Created by [`RedisStore::builder`].
#[must_use = "a builder does nothing until it is built"]
pub struct RedisStoreBuilder {
    url: String,
    access: AccessOptions,
    timeout: Duration,
    key_prefix: String,
    max_bytes: usize,
    spawner: Option<Arc<dyn Spawner>>,
}

impl RedisStore {
    /// Creates a store with the default settings. The URL has the form of
    /// [`RedlockBuilder::nodes`](crate::RedlockBuilder::nodes).
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the URL is invalid. A server that is down is not an error.
    pub fn new(url: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder(url).build()
    }

    /// Creates a builder, for other settings.
    pub fn builder(url: impl Into<String>) -> RedisStoreBuilder {
        RedisStoreBuilder::new(url.into())
    }
}

impl RedisStoreBuilder {
    fn new(url: String) -> Self {
        Self {
            url,
            access: AccessOptions::default(),
            timeout: Duration::from_secs(1),
            key_prefix: "redlock".into(),
            max_bytes: 1 << 20,
            spawner: None,
        }
    }
}

/// # Server
impl RedisStoreBuilder {
    /// Sets the credentials for a URL without any.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.access.credentials = Some(credentials);
        self
    }

    /// Sets how a `rediss://` server is verified. Default: by the operating system's certificates.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.access.tls = Some(options);
        self
    }

    /// Sets how the stream to the server is opened. Default: the system's sockets.
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.access.connector = Arc::new(connector);
        self
    }

    /// Sets what runs the connection and timers. Default: a thread.
    pub fn spawner(mut self, spawner: impl Spawner) -> Self {
        self.spawner = Some(Arc::new(spawner));
        self
    }
}

/// # Responses
impl RedisStoreBuilder {
    /// Sets the prefix of all keys on the server, which `:answer:` follows: 1 to 64 bytes. Default:
    /// `redlock`.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// Sets the timeout of a put or a get, connecting included. Default: 1 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum size of the body of a response, in bytes. The put of a larger one fails. Default:
    /// 1 MiB, and at most 32 MiB. Choose it no smaller than
    /// [`response_limit`](crate::OnceLayer::response_limit).
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// # Build
impl RedisStoreBuilder {
    /// Checks the settings. The first put or get connects to the server.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: the setting that is wrong, and why.
    pub fn build(self) -> Result<RedisStore, BuildError> {
        let endpoint = Endpoint::parse(1, &self.url)?;
        if endpoint.directory().is_some() {
            let reason =
                "a store is one server, at one address: redis://, rediss:// or redis+unix://";
            return Err(BuildError::setting("url", reason));
        }
        check_text("key_prefix", "it", &self.key_prefix, MAX_PREFIX_BYTES)?;
        if self.timeout.is_zero() || self.timeout > MAX_DURATION {
            let reason = format!("{:?} is not within 1 ms and {MAX_DURATION:?}", self.timeout);
            return Err(BuildError::setting("timeout", reason));
        }
        if self.max_bytes > MAX_BYTES {
            let reason = format!("{} is more than {MAX_BYTES}", self.max_bytes);
            return Err(BuildError::setting("max_bytes", reason));
        }
        let access = self.access.check(std::slice::from_ref(&endpoint))?;
        let spawner = spawner_or_thread(self.spawner)?;
        let timers = Arc::new(Timers::new(Arc::new(SystemClock::new())));
        spawner.spawn(Box::pin(Arc::clone(&timers).run()));
        let (jobs, receiver) = mpsc::unbounded_channel();
        let server = Arc::clone(&endpoint.name);
        let single = SingleServer::new(endpoint, access, self.timeout);
        spawner.spawn(Box::pin(worker::run(single, self.max_bytes, receiver)));
        let client = StoreClient {
            server,
            key_prefix: self.key_prefix,
            timeout: self.timeout,
            max_bytes: self.max_bytes,
            jobs,
            pending: Arc::new(Semaphore::new(MAX_PENDING)),
            pending_kib: Arc::new(Semaphore::new(MAX_PENDING_KIB)),
            timers,
            _spawner: spawner,
        };
        Ok(RedisStore { client: Arc::new(client) })
    }
}

/// Without the URL, which may have a password.
impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStoreBuilder")
            .field("timeout", &self.timeout)
            .field("key_prefix", &self.key_prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;
    use crate::sync::{Mutex, lock};

    const URL: &str = "redis://127.0.0.1:1";

    #[tokio::test]
    async fn settings_are_within_their_limits() {
        let step = Duration::from_nanos(1);
        for (timeout, is_valid) in
            [(Duration::ZERO, false), (MAX_DURATION, true), (MAX_DURATION + step, false)]
        {
            let built = RedisStore::builder(URL).timeout(timeout).build();
            assert_eq!(built.is_ok(), is_valid, "{timeout:?}");
        }
        for (bytes, is_valid) in [(0, true), (MAX_BYTES, true), (MAX_BYTES + 1, false)] {
            let built = RedisStore::builder(URL).max_bytes(bytes).build();
            assert_eq!(built.is_ok(), is_valid, "{bytes}");
        }
    }

    #[derive(Clone, Debug, Default)]
    struct Tasks(Arc<Mutex<Vec<JoinHandle<()>>>>);

    impl Spawner for Tasks {
        fn spawn(&self, task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>) {
            lock(&self.0).push(tokio::spawn(task));
        }
    }

    #[tokio::test]
    async fn tasks_end_with_the_store() {
        let tasks = Tasks::default();
        drop(RedisStore::builder(URL).spawner(tasks.clone()).build().unwrap());
        let tasks = std::mem::take(&mut *lock(&tasks.0));
        assert_eq!(tasks.len(), 2);
        let all = futures_util::future::join_all(tasks);
        tokio::time::timeout(Duration::from_secs(10), all).await.expect("they end");
    }
}
