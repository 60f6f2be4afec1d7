//! The store: its puts and gets.

use std::{fmt, future::ready, sync::Arc, time::Duration};

use ::redis::Value;

use super::{
    client::{self, StoreClient},
    worker::{self, StoreCommand},
};
use crate::{
    error::Reason,
    once::{ResponseStore, StoreError, StoreFuture, StoredBy, StoredResponse},
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
/// Concurrent commands share one write. At most 1,024 commands wait for the server, and puts of 64 MiB
/// together; further ones fail. Each put or get ends within
/// [`timeout`](crate::once::RedisStoreBuilder::timeout), even if the server hangs.
///
/// ACL: `+eval +get +set +getrange` on `~{key_prefix}:answer:*`, and `+select` if the URL names a
/// database.
///
/// Clones are the same store. Build it after the last `fork` of the process, like a manager.
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
    fn key(&self, key: &str) -> String {
        format!("{}:answer:{key}", self.client.key_prefix)
    }
}

impl ResponseStore for RedisStore {
    fn put(
        &self,
        key: &str,
        response: Arc<StoredResponse>,
        retain: Duration,
        token: FencingToken,
    ) -> StoreFuture<()> {
        let (bytes, limit) = (response.body().len(), self.client.max_bytes);
        if bytes > limit {
            let text = format!("a response of {bytes} bytes is above max_bytes ({limit})");
            return Box::pin(ready(Err(StoreError::failed(text))));
        }
        // The server rejects zero.
        let millis = retain.min(MAX_DURATION).as_millis().max(1);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        let put = StoreCommand::Put { key: self.key(key), response, token, millis };
        let reply = self.client.send(put);
        Box::pin(async move {
            match reply.await? {
                Value::Int(1) => Ok(()),
                // The worker checks that it is a number.
                _ => Err(StoreError::Stale),
            }
        })
    }

    fn get(&self, key: &str) -> StoreFuture<Option<StoredBy>> {
        let reply = self.client.send(StoreCommand::Get { key: self.key(key) });
        let server = Arc::clone(&self.client.server);
        Box::pin(async move {
            // The worker checks that it is a value or none.
            let Value::BulkString(value) = reply.await? else { return Ok(None) };
            worker::decode(value).map(Some).map_err(|error| {
                let text = format!("its key holds something else ({error})");
                client::failed(server, Reason::Protocol(text.into()))
            })
        })
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("server", &self.client.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::once::StoredHeaders;

    /// The server takes connections, and does not answer.
    #[tokio::test]
    async fn waiting_responses_are_bounded_by_bytes() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", server.local_addr().unwrap());
        let minute = Duration::from_secs(60);
        let store = RedisStore::builder(&*url).timeout(minute).build().unwrap();
        let put = || {
            let (parts, ()) = http::Response::new(()).into_parts();
            let body = vec![0; 1 << 20].into();
            let response = StoredResponse::new(&parts, body, &StoredHeaders::default());
            store.put("k", Arc::new(response), Duration::MAX, FencingToken::new(1))
        };

        let mut waiting: Vec<_> = (0..64).map(|_| put()).collect();

        assert!(waiting.iter_mut().all(|put| put.now_or_never().is_none()));
        let error = put().now_or_never().expect("it is refused at once").unwrap_err();
        assert!(error.cause().to_string().contains("64 MiB"), "{}", error.cause());
    }

    #[tokio::test]
    async fn only_larger_responses_are_refused() {
        let store = RedisStore::builder("redis://127.0.0.1:1").max_bytes(3).build().unwrap();
        let is_refused = |body: &'static str| {
            let (parts, ()) = http::Response::new(()).into_parts();
            let response = StoredResponse::new(&parts, body.into(), &StoredHeaders::default());
            let put = store.put("k", Arc::new(response), Duration::MAX, FencingToken::new(1));
            put.now_or_never().is_some_and(|put| put.is_err())
        };
        assert!(is_refused("four") && !is_refused("not"));
    }
}
