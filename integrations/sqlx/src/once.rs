//! Records of work that is done, in the transaction of its effect.

use std::time::{Duration, SystemTime};

use sqlx::{PgExecutor, Postgres, Transaction};

const RECORD: &str =
    "INSERT INTO tower_redlock_once (scope, key) VALUES ($1, $2) ON CONFLICT DO NOTHING";

const DONE_AT: &str = "SELECT (extract(epoch FROM done_at) * 1000000)::bigint FROM tower_redlock_once \
     WHERE scope = $1 AND key = $2";

const YEAR: Duration = Duration::from_secs(365 * 86_400);

const FORGET: &str = "DELETE FROM tower_redlock_once WHERE scope = $1 AND done_at < now() - $2 * interval '1 second'";

/// Whether a transaction does the work of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the work must not run again if it is done"]
pub enum OnceIn {
    /// The key is new. It counts as done when this transaction is committed.
    New,
    /// Another transaction has done the work.
    AlreadyDone {
        /// When that transaction began, by the database's clock.
        at: SystemTime,
    },
}

/// Records in this transaction that the work of a key is done.
///
/// Have the effect in the same transaction, on the same database. Then it happens once, wherever the process ends:
/// before the commit, nothing has happened, and after it, the record is there. No lock is needed for that. Under a
/// `OnceLayer` or `Redlock::once`, it closes the gap between an effect and its record, and
/// [`done_at`] answers `OnceRequest::unless`.
///
/// `scope` names the kind of work, such as `payments`. If another transaction has recorded the key and is open, this
/// waits for its end.
///
/// Costs one statement for a new key.
///
/// # Errors
///
/// As the database reports them. Under `REPEATABLE READ` and `SERIALIZABLE`, SQLSTATE 40001 where another transaction
/// has recorded the key meanwhile: begin the transaction again. So does 40P01, if two transactions record several keys in
/// different orders. `FenceError::from(error).is_retryable()` tells both apart from others.
///
/// # Cancel safety
///
/// If it is dropped, drop the transaction too.
///
/// ```no_run
/// use sqlx::PgPool;
/// use tower_redlock_sqlx::{OnceIn, once_in};
///
/// # async fn example(pool: PgPool) -> Result<(), sqlx::Error> {
/// let mut tx = pool.begin().await?;
/// if once_in(&mut tx, "payments", "order:7").await? == OnceIn::New {
///     sqlx::query("UPDATE accounts SET cents = cents - 900 WHERE id = 42").execute(&mut *tx).await?;
/// }
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub async fn once_in(
    tx: &mut Transaction<'_, Postgres>,
    scope: &str,
    key: &str,
) -> Result<OnceIn, sqlx::Error> {
    loop {
        let recorded = sqlx::query(RECORD).bind(scope).bind(key).execute(&mut **tx).await?;
        if recorded.rows_affected() == 1 {
            return Ok(OnceIn::New);
        }
        if let Some(at) = done_at(&mut **tx, scope, key).await? {
            return Ok(OnceIn::AlreadyDone { at });
        }
        // The record was deleted as too old between the two statements.
    }
}

/// Returns when the work of a key was done; `None` if it is not done.
///
/// # Errors
///
/// As the database reports them.
pub async fn done_at(
    database: impl PgExecutor<'_>,
    scope: &str,
    key: &str,
) -> Result<Option<SystemTime>, sqlx::Error> {
    let micros: Option<i64> =
        sqlx::query_scalar(DONE_AT).bind(scope).bind(key).fetch_optional(database).await?;
    let since_epoch = |micros: i64| Duration::from_micros(micros.unsigned_abs());
    Ok(micros.map(|micros| SystemTime::UNIX_EPOCH + since_epoch(micros)))
}

/// Deletes the records of a scope that are older than `age`. Returns their number.
///
/// Choose `age` above the time for which senders repeat a request: then the work of a key would be new again.
///
/// # Errors
///
/// As the database reports them.
pub async fn forget_older_than(
    database: impl PgExecutor<'_>,
    scope: &str,
    age: Duration,
) -> Result<u64, sqlx::Error> {
    // PostgreSQL has no time before 4713 BC.
    let seconds = age.min(5_000 * YEAR).as_secs_f64();
    let deleted = sqlx::query(FORGET).bind(scope).bind(seconds).execute(database).await?;
    Ok(deleted.rows_affected())
}
