//! Refuses transactions of former holders.

use std::fmt;

use sqlx::{Postgres, Transaction};
use tower_redlock::{FencingToken, Resource, error::ResourceError};

/// Tokens are below this number.
const TOKEN_LIMIT: i64 = 1 << 53;

/// Raises the fence of each name. A row is locked also where its token stays, until the transaction ends. The order of
/// the names keeps two calls from waiting for each other.
const RAISE: &str = "INSERT INTO tower_redlock_fences AS fences (resource, token) \
     SELECT name, $2 FROM unnest($1::text[]) AS name ORDER BY name \
     ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token WHERE fences.token <= EXCLUDED.token";

/// Reads a fence that is above a token.
const ABOVE: &str = "SELECT resource, token FROM tower_redlock_fences \
     WHERE resource = ANY($1::text[]) AND token > $2 ORDER BY resource LIMIT 1";

/// Refuses the transaction if another one has written to the resource under a greater token.
///
/// Call it first in the transaction, with the resource and the token of your lock. It stores the token, and locks the
/// row of the resource until the transaction ends: transactions on one resource run one after the other, and in the
/// order of their tokens. A resource of several names has a row for each. The token of an earlier transaction may
/// be used again, as one lock may cover several transactions.
///
/// Name all resources of a transaction in one call, as a [`Resource`] of several names: two calls in one transaction
/// may end in a deadlock with another one, which PostgreSQL resolves (SQLSTATE 40P01). Use the outermost transaction: a
/// nested one is a savepoint, and its rollback undoes the fence while the outer one continues.
///
/// Costs one statement.
///
/// # Errors
///
/// * [`FenceError::Stale`]: another holder has followed. Roll back, by dropping the transaction, which PostgreSQL would
///   still commit. A retry under the same lock fails again.
/// * [`FenceError::NoToken`], [`FenceError::InvalidToken`], [`FenceError::InvalidResource`]: nothing was sent.
/// * [`FenceError::Database`]: see [`is_retryable`](FenceError::is_retryable).
///
/// # Cancel safety
///
/// If it is dropped, drop the transaction too: whether the fence was raised is unknown.
///
/// ```no_run
/// use sqlx::PgPool;
/// use tower_redlock::FencingToken;
/// use tower_redlock_sqlx::{FenceError, fence};
///
/// # async fn example(pool: PgPool, token: FencingToken) -> Result<(), sqlx::Error> {
/// let mut tx = pool.begin().await?;
/// match fence(&mut tx, "account:42", token).await {
///     Ok(()) => tx.commit().await?,
///     Err(FenceError::Stale { stored, .. }) => eprintln!("the holder of {stored} has written since"),
///     Err(error) => eprintln!("{error}"),
/// }
/// # Ok(())
/// # }
/// ```
pub async fn fence<R>(
    tx: &mut Transaction<'_, Postgres>,
    resource: R,
    token: FencingToken,
) -> Result<(), FenceError>
where
    R: TryInto<Resource>,
    R::Error: Into<ResourceError>,
{
    let resource =
        resource.try_into().map_err(|error| FenceError::InvalidResource(error.into()))?;
    let number = i64::try_from(token.get()).ok().filter(|number| *number < TOKEN_LIMIT);
    let number = match number {
        Some(0) => return Err(FenceError::NoToken),
        Some(number) => number,
        // It would shut out all later holders.
        None => return Err(FenceError::InvalidToken(token)),
    };
    let names: Vec<&str> = resource.names().collect();

    let raised = sqlx::query(RAISE).bind(&names).bind(number).execute(&mut **tx).await?;
    if raised.rows_affected() == names.len() as u64 {
        return Ok(());
    }
    let above: (String, i64) =
        sqlx::query_as(ABOVE).bind(&names).bind(number).fetch_one(&mut **tx).await?;
    let stored = FencingToken::new(above.1.unsigned_abs());
    Err(FenceError::Stale { resource: above.0, token, stored })
}

/// Why a transaction must not be committed.
#[derive(Debug)]
#[non_exhaustive]
pub enum FenceError {
    /// Another holder has written to the resource: this lock has ended.
    Stale {
        /// The name whose fence is above the token.
        resource: String,
        /// The token of the refused transaction.
        token: FencingToken,
        /// The greater token of an earlier transaction.
        stored: FencingToken,
    },
    /// The token is zero: the lock's manager was built with `fencing(false)`.
    NoToken,
    /// The token is not below 2^53, so no lock has it.
    InvalidToken(FencingToken),
    /// The resource has no valid name.
    InvalidResource(ResourceError),
    /// The database's own error.
    Database(sqlx::Error),
}

impl FenceError {
    /// Whether the whole transaction can be begun again, under the same lock and token: the database ended it because
    /// of others that ran side by side (SQLSTATE 40001 or 40P01).
    pub fn is_retryable(&self) -> bool {
        let Self::Database(sqlx::Error::Database(error)) = self else { return false };
        matches!(error.code().as_deref(), Some("40001" | "40P01"))
    }
}

impl From<sqlx::Error> for FenceError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl fmt::Display for FenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { resource, token, stored } => write!(
                f,
                "the lock on {resource} has ended: its token {token} is below {stored}, under which another \
                 holder has written; roll this transaction back"
            ),
            Self::NoToken => f.write_str(
                "the lock has no fencing token: build its manager without `fencing(false)`",
            ),
            Self::InvalidToken(token) => {
                write!(f, "{token} is not a fencing token of a lock: it is not below 2^53")
            }
            Self::InvalidResource(error) => error.fmt(f),
            Self::Database(error) => write!(f, "the fence could not be stored: {error}"),
        }
    }
}

impl std::error::Error for FenceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            Self::InvalidResource(error) => Some(error),
            Self::Stale { .. } | Self::NoToken | Self::InvalidToken(_) => None,
        }
    }
}
