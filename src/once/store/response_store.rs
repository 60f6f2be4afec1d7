//! The trait of stores of responses, and their error.

use std::{error::Error, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use crate::{once::StoredResponse, token::FencingToken};

/// Stores the first response of each request, to be replayed for its repetitions.
///
/// The holder that puts a response may have lost its lock without knowing. So a store compares
/// fencing tokens: an older holder's response never replaces a newer one. The reader compares it
/// with the token of the record.
///
/// In a database, the write itself has to compare:
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
/// If the work writes to the same database, it can write the response in its own transaction; `put`
/// then has nothing to do.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use tower_redlock::{
///     FencingToken,
///     once::{ResponseStore, StoreError, StoreFuture, StoredBy, StoredResponse},
/// };
///
/// # #[derive(Clone)] struct Pool;
/// # impl Pool {
/// #     async fn upsert(&self, _: String, _: u64, _: bytes::Bytes, _: Duration) -> Result<u64, std::io::Error> { Ok(1) }
/// #     async fn select(&self, _: String) -> Result<Option<(u64, Vec<u8>)>, std::io::Error> { Ok(None) }
/// # }
/// struct Database(Pool);
///
/// impl ResponseStore for Database {
///     fn put(
///         &self,
///         key: &str,
///         response: Arc<StoredResponse>,
///         retain: Duration,
///         token: FencingToken,
///     ) -> StoreFuture<()> {
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
///     fn get(&self, key: &str) -> StoreFuture<Option<StoredBy>> {
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
    /// Stores a response for `retain`. Replaces a response of the same or an older token.
    ///
    /// Repeating a put only renews its time. Without fencing all tokens are zero, and the last put
    /// stays.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if a newer token's response is stored; nothing has changed then. After
    /// another error it is unknown whether the response is stored.
    ///
    /// # Cancel safety
    ///
    /// After a drop, the response may be stored.
    fn put(
        &self,
        key: &str,
        response: Arc<StoredResponse>,
        retain: Duration,
        token: FencingToken,
    ) -> StoreFuture<()>;

    /// Returns the response of a key, with its token; `None` if there is none, or it has expired.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store could not be read.
    fn get(&self, key: &str) -> StoreFuture<Option<StoredBy>>;
}

/// The future of a put or a get.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// A stored response, with the token of its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBy {
    /// The token of the holder that put it.
    pub token: FencingToken,
    /// The response.
    pub response: Arc<StoredResponse>,
}

/// An error of a [`ResponseStore`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// A newer holder's response is stored.
    Stale,
    /// The store failed; its own error is the source.
    Failed(Arc<dyn Error + Send + Sync>),
}

impl StoreError {
    /// Wraps the store's own error.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(error.into().into())
    }

    /// Returns what logs show.
    pub(crate) fn cause(&self) -> &dyn fmt::Display {
        match self {
            Self::Stale => self,
            Self::Failed(error) => error,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "the response of a newer holder is already stored",
            Self::Failed(_) => "the response store failed",
        })
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Stale => None,
            Self::Failed(error) => Some(&**error),
        }
    }
}
