use std::{future::Future, sync::Arc, time::Duration};

use super::StoreError;
use crate::{once::StoredResponse, token::FencingToken};

/// Keeps the first responses of requests, for those who send the same again.
///
/// Responses are put by a holder that may have lost its lock meanwhile and does not know. So a store compares fencing tokens: what a newer holder
/// put is never replaced by an older one. Who reads compares the token with that of the record.
///
/// In a database, the comparison belongs into the write itself:
///
/// ```sql
/// CREATE TABLE responses (
///     key text PRIMARY KEY, token bigint NOT NULL, response bytea NOT NULL, expires timestamptz NOT NULL
/// );
/// -- put: no row was changed = StoreError::Stale
/// INSERT INTO responses VALUES ($1, $2, $3, now() + $4)
/// ON CONFLICT (key) DO UPDATE SET token = $2, response = $3, expires = now() + $4
/// WHERE responses.token <= $2 OR responses.expires <= now();
/// -- get
/// SELECT token, response FROM responses WHERE key = $1 AND expires > now();
/// -- from time to time
/// DELETE FROM responses WHERE expires <= now();
/// ```
///
/// A store in the database that the work writes to can go further: let the work itself write the
/// response, in its own transaction, and `put` has nothing left to do.
///
/// The futures have names, so that the crate's own need no boxes; a store may box its own:
///
/// ```
/// use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
/// use tower_redlock::{FencingToken, once::{ResponseStore, StoreError, StoredBy, StoredResponse}};
///
/// # #[derive(Clone)] struct Pool;
/// # impl Pool {
/// #     async fn upsert(&self, _: String, _: u64, _: bytes::Bytes, _: Duration) -> Result<u64, std::io::Error> { Ok(1) }
/// #     async fn select(&self, _: String) -> Result<Option<(u64, Vec<u8>)>, std::io::Error> { Ok(None) }
/// # }
/// struct Database(Pool);
///
/// type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;
///
/// impl ResponseStore for Database {
///     type Put = Boxed<()>;
///     type Get = Boxed<Option<StoredBy>>;
///
///     fn put(&self, key: &str, response: Arc<StoredResponse>, retain: Duration, token: FencingToken) -> Self::Put {
///         let (pool, key) = (self.0.clone(), key.to_owned());
///         Box::pin(async move {
///             let put = pool.upsert(key, token.get(), response.encode(), retain);
///             match put.await.map_err(StoreError::failed)? {
///                 0 => Err(StoreError::Stale),
///                 _ => Ok(()),
///             }
///         })
///     }
///
///     fn get(&self, key: &str) -> Self::Get {
///         let (pool, key) = (self.0.clone(), key.to_owned());
///         Box::pin(async move {
///             let row = pool.select(key).await.map_err(StoreError::failed)?;
///             let Some((token, record)) = row else { return Ok(None) };
///             let response = StoredResponse::decode(record).map_err(StoreError::failed)?;
///             Ok(Some(StoredBy { token: FencingToken::new(token), response: Arc::new(response) }))
///         })
///     }
/// }
/// ```
pub trait ResponseStore: Send + Sync + 'static {
    /// The future of [`put`](Self::put).
    type Put: Future<Output = Result<(), StoreError>> + Send + 'static;
    /// The future of [`get`](Self::get).
    type Get: Future<Output = Result<Option<StoredBy>, StoreError>> + Send + 'static;

    /// Keeps a response for `retain`, in place of what the key had from this or an older token.
    ///
    /// A put that is repeated changes nothing but the time that it is kept. Where tokens are
    /// switched off, all are zero, and the last put stays.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] where a newer token's response is kept; nothing was changed then.
    /// After another error it is unknown whether the response is kept.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped may still have put the response.
    fn put(
        &self,
        key: &str,
        response: Arc<StoredResponse>,
        retain: Duration,
        token: FencingToken,
    ) -> Self::Put;

    /// The response of a key, and whose it is; `None` if there is none, or its time is over.
    ///
    /// # Errors
    ///
    /// [`StoreError`] where the store can't tell.
    fn get(&self, key: &str) -> Self::Get;
}

/// A response that is kept, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBy {
    /// The token of the holder that put it.
    pub token: FencingToken,
    /// The response.
    pub response: Arc<StoredResponse>,
}
