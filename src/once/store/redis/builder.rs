//! Settings of the store.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use tokio::sync::mpsc;

use super::{RedisStore, client::StoreClient, worker};
use crate::{
    error::BuildError,
    lock::{Spawner, ThreadSpawner},
    node::redis::{
        Access, Connector, Credentials, Endpoint, SingleServer, SocketConnector, TlsOptions,
    },
    time::{MAX_DURATION, SystemClock, Timers},
};

/// Builds a [`RedisStore`]. Made by [`RedisStore::builder`].
#[must_use = "a builder does nothing until it is built"]
pub struct RedisStoreBuilder {
    url: String,
    credentials: Option<Credentials>,
    tls: Option<TlsOptions>,
    timeout: Duration,
    key_prefix: String,
    max_bytes: usize,
    connector: Arc<dyn Connector>,
    spawner: Option<Arc<dyn Spawner>>,
}

/// Maximum length of a key prefix, in bytes.
const MAX_PREFIX_BYTES: usize = 64;

impl RedisStoreBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            credentials: None,
            tls: None,
            timeout: Duration::from_secs(1),
            key_prefix: "redlock".into(),
            max_bytes: 1 << 20,
            connector: Arc::new(SocketConnector::new()),
            spawner: None,
        }
    }

    /// Credentials, where the URL names none.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// How a `rediss://` server is verified. Default: by the operating system's certificates.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = Some(options);
        self
    }

    /// How long a put or a get may take, connecting included. Default: 1 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What the names of all keys on the server begin with. Default `redlock`; `:answer:` follows.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// The largest body of a response that is put, in bytes; a larger one is an error of the put.
    /// Default: 1 MiB, and at most 32 MiB. Choose it no smaller than
    /// [`response_limit`](crate::OnceLayer::response_limit).
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How the stream to the server is opened. Default: the system's sockets.
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.connector = Arc::new(connector);
        self
    }

    /// What runs the connection and timers. Default: a thread.
    pub fn spawner(mut self, spawner: impl Spawner) -> Self {
        self.spawner = Some(Arc::new(spawner));
        self
    }

    /// Checks the settings. The server is connected when there is something to put or get.
    ///
    /// # Errors
    ///
    /// [`BuildError`] says which setting is wrong, and why.
    pub fn build(self) -> Result<RedisStore, BuildError> {
        let endpoint = Endpoint::parse(1, &self.url)?;
        let prefix = &self.key_prefix;
        if prefix.is_empty() || prefix.len() > MAX_PREFIX_BYTES || prefix.contains(char::is_control)
        {
            let reason =
                format!("it must have 1 to {MAX_PREFIX_BYTES} bytes and no control characters");
            return Err(BuildError::setting("key_prefix", reason));
        }
        if self.timeout.is_zero() || self.timeout > MAX_DURATION {
            let reason = format!("{:?} is not within 1 ms and {MAX_DURATION:?}", self.timeout);
            return Err(BuildError::setting("timeout", reason));
        }
        if self.max_bytes > MAX_BYTES {
            let reason = format!("{} is more than {MAX_BYTES}", self.max_bytes);
            return Err(BuildError::setting("max_bytes", reason));
        }
        if let Some(Err(reason)) = self.credentials.as_ref().map(Credentials::check) {
            return Err(BuildError::setting("credentials", &*reason));
        }
        #[cfg(not(feature = "tls"))]
        if self.tls.is_some() {
            let reason = "enable the feature `tls` of tower-redlock to use TLS options".into();
            return Err(BuildError::Tls { reason });
        }
        let access = Access {
            credentials: self.credentials,
            connector: self.connector,
            #[cfg(feature = "tls")]
            tls: crate::node::redis::tls_config(
                self.tls.as_ref(),
                std::slice::from_ref(&endpoint),
            )?,
        };
        let system = |error| BuildError::System(Arc::new(error));
        let spawner = match self.spawner {
            Some(spawner) => spawner,
            None => Arc::new(ThreadSpawner::start().map_err(system)?),
        };
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
            pending: Arc::new(AtomicUsize::new(0)),
            timers,
            process: std::process::id(),
            _spawner: spawner,
        };
        Ok(RedisStore { client: Arc::new(client) })
    }
}

/// The greatest `max_bytes`: what one answer of a server may take is bounded.
const MAX_BYTES: usize = 32 << 20;

/// URLs may hold passwords: they are not shown.
impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStoreBuilder")
            .field("timeout", &self.timeout)
            .field("key_prefix", &self.key_prefix)
            .finish_non_exhaustive()
    }
}
