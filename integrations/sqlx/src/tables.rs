//! The tables.

use sqlx::PgPool;

/// The statements that create the tables, for your own migrations. Those of what exists change nothing.
pub const SCHEMA: &str = include_str!("../migrations/tower_redlock.sql");

/// Key of the advisory lock under which the tables are created.
const TABLES_LOCK: i64 = 0x7265_646c_6f63_6b00;

/// Whether all of it exists. Creating an index that exists would wait for all transactions that write to its table.
const EXIST: &str = "SELECT to_regclass('tower_redlock_fences') IS NOT NULL \
     AND to_regclass('tower_redlock_once') IS NOT NULL AND to_regclass('tower_redlock_once_done_at') IS NOT NULL";

/// Creates the tables that are missing, in the first schema of the connection's search path. If none is missing, it only
/// reads, and needs no permission to create tables.
///
/// Several processes may call it at once.
///
/// # Errors
///
/// As the database reports them, for example if the user may not create tables.
///
/// # Cancel safety
///
/// If it is dropped, nothing has been created, or everything.
pub async fn create_tables(pool: &PgPool) -> Result<(), sqlx::Error> {
    if sqlx::query_scalar(EXIST).fetch_one(pool).await? {
        return Ok(());
    }
    let mut tx = pool.begin().await?;
    // `IF NOT EXISTS` alone fails in one of two sessions that create a table at once.
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(TABLES_LOCK).execute(&mut *tx).await?;
    sqlx::raw_sql(SCHEMA).execute(&mut *tx).await?;
    tx.commit().await
}
