//! The store, and the futures of its puts and gets.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use ::redis::Value;

use super::{
    RedisStoreBuilder,
    client::{PendingReply, StoreClient},
    worker::{self, StoreCommand},
};
use crate::{
    error::{BuildError, Reason},
    once::{ResponseStore, StoreError, StoredBy, StoredResponse},
    time::MAX_DURATION,
    token::FencingToken,
};

/// A [`ResponseStore`] on a Redis (or Valkey) server: one that is **not** among the lock's nodes, so
/// that answers never take the memory that locks need.
///
/// Recommended for responses above some kB, and for many: one server stores each response once for all
/// replicas, and locks work without it. If the server fails, only responses are lost: while it is
/// down, repeated requests are answered 503 (`store-unavailable`); those whose responses are lost or
/// evicted, 409 (`response-not-kept`). So it may evict (`maxmemory-policy volatile-ttl`), and needs no
/// persistence.
///
/// One script puts a response and compares fencing tokens: an older holder's response never replaces a
/// newer one. It expires after its `retain`.
///
/// One connection, on a thread of the store's own, is opened by the first put or get, and reopened
/// after it broke, or when the server reports that it is a replica, is loading, or refuses the login:
/// it follows a failover behind a virtual address or a DNS name, and credentials may rotate.
/// Concurrent commands share one write. Each put or get ends within
/// [`timeout`](RedisStoreBuilder::timeout), even if the server hangs.
///
/// ACL: `+eval +get +set +getrange` on `~{key_prefix}:answer:*`, and `+select` if the URL names a
/// database.
///
/// Clones are the same store. In a fork of the process that built it, each put and get fails with
/// [`LockError::Forked`](crate::LockError::Forked), including those sent before the fork.
///
/// ```
/// use tower_redlock::{once::{http::Scope, RedisStore}, OnceLayer, Redlock};
///
/// # fn main() -> Result<(), tower_redlock::error::BuildError> {
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
    pub(super) client: Arc<StoreClient>,
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

    fn key(&self, key: &str) -> String {
        format!("{}:answer:{key}", self.client.key_prefix)
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
        let (bytes, limit) = (response.body().len(), self.client.max_bytes);
        if bytes > limit {
            let text = format!("a response of {bytes} bytes is above max_bytes ({limit})");
            return RedisPut(PendingReply::refused(StoreError::failed(text)));
        }
        // The server rejects zero.
        let millis = retain.min(MAX_DURATION).as_millis().max(1);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        RedisPut(self.client.send(StoreCommand::Put {
            key: self.key(key),
            response,
            token,
            millis,
        }))
    }

    fn get(&self, key: &str) -> Self::Get {
        RedisGet(self.client.send(StoreCommand::Get { key: self.key(key) }))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("server", &self.client.server).finish_non_exhaustive()
    }
}

/// The future of [`RedisStore`]'s `put`.
///
/// # Cancel safety
///
/// After a drop, the response may be stored.
///
/// # Panics
///
/// If polled again after it was ready.
#[must_use = "futures do nothing unless polled"]
pub struct RedisPut(PendingReply);

impl Future for RedisPut {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.0.poll(cx))? {
            Value::Int(1) => Ok(()),
            Value::Int(_) => Err(StoreError::Stale),
            _ => Err(self.0.error(Reason::Protocol(worker::NOT_A_PUT_REPLY.into()))),
        })
    }
}

impl fmt::Debug for RedisPut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisPut").finish_non_exhaustive()
    }
}

/// The future of [`RedisStore`]'s `get`.
///
/// # Cancel safety
///
/// Cancel safe.
///
/// # Panics
///
/// If polled again after it was ready.
#[must_use = "futures do nothing unless polled"]
pub struct RedisGet(PendingReply);

impl Future for RedisGet {
    type Output = Result<Option<StoredBy>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let stored = match ready!(self.0.poll(cx))? {
            Value::Nil => return Poll::Ready(Ok(None)),
            Value::BulkString(value) => worker::decode(value),
            _ => Err("a response was expected".into()),
        };
        Poll::Ready(stored.map(Some).map_err(|error| {
            let text = format!("its key holds something else ({error})");
            self.0.error(Reason::Protocol(text.into()))
        }))
    }
}

impl fmt::Debug for RedisGet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisGet").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::once::StoredHeaders;

    #[tokio::test]
    async fn only_larger_responses_are_refused() {
        let store = RedisStore::builder("redis://127.0.0.1:1").max_bytes(3).build().unwrap();
        let is_refused = |body: &'static str| {
            let (parts, ()) = http::Response::new(()).into_parts();
            let response = StoredResponse::new(&parts, body.into(), &StoredHeaders::default());
            let put = store.put("k", Arc::new(response), Duration::MAX, FencingToken::new(1));
            matches!(put.0, PendingReply::Refused(_))
        };
        assert!(is_refused("four") && !is_refused("not"));
    }
}
