//! The resource's side of fencing, for PostgreSQL through sqlx.
//!
//! A lock can end while its holder does not run: its process is stopped, its machine suspended, its commit delayed by
//! the network. Only the database can refuse what such a holder writes later.
//!
//! * [`fence`] refuses a transaction whose [fencing token](FencingToken) is smaller than the token of an earlier one on
//!   the same resource.
//! * [`once_in`] records that work is done, in the transaction of its effect: both are committed, or neither.
//!
//! ```no_run
//! use sqlx::PgPool;
//! use tower_redlock::Redlock;
//! use tower_redlock_sqlx::fence;
//!
//! async fn withdraw(
//!     redlock: &Redlock,
//!     pool: &PgPool,
//!     account: i64,
//!     cents: i64,
//! ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!     let name = format!("account:{account}");
//!     let work = redlock.lock(name).try_run(|lock| async move {
//!         let mut tx = pool.begin().await?;
//!         // First: what the transaction reads from here on, no other holder changes before its end.
//!         fence(&mut tx, lock.resource(), lock.fencing_token()).await?;
//!         sqlx::query("UPDATE accounts SET cents = cents - $2 WHERE id = $1")
//!             .bind(account)
//!             .bind(cents)
//!             .execute(&mut *tx)
//!             .await?;
//!         tx.commit().await?;
//!         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//!     });
//!     Ok(work.await?)
//! }
//! ```
//!
//! # Set up
//!
//! [`create_tables`] creates the two tables, at the start of each process if you like. To create them with your own
//! migrations, copy [`SCHEMA`].
//!
//! A transaction holds the row of its resource until it ends, so the next holder's transaction waits for it. Set
//! PostgreSQL's `idle_in_transaction_session_timeout` to about the TTL of your locks: then the transaction of a process
//! that is stopped is rolled back, and its commit fails.
//!
//! ```
//! use sqlx::postgres::PgConnectOptions;
//!
//! let options = PgConnectOptions::new().options([("idle_in_transaction_session_timeout", "10s")]);
//! # drop(options);
//! ```
//!
//! # Isolation
//!
//! Both functions work at every isolation level. Under `REPEATABLE READ` and `SERIALIZABLE`, PostgreSQL ends
//! transactions that ran side by side with SQLSTATE 40001, also at the commit. Begin such a transaction again, under the same
//! lock and token: [`FenceError::is_retryable`], of other errors `FenceError::from(error).is_retryable()`.
//!
//! # Rows
//!
//! Fences are kept by the name of the resource:
//!
//! * Managers with different `key_prefix`, or over different servers, need a schema each (`search_path`), as their tokens
//!   do not compare.
//! * Each name that was ever locked has a row. Delete rows of names that no process locks any more.
//! * If the lock servers have lost their data and their clocks were set back, tokens are smaller than before, and all
//!   transactions are stale. Stop all holders, and delete the rows.
//!
//! [`FencingToken`]: tower_redlock::FencingToken

mod fence;
mod once;
mod tables;

pub use fence::{FenceError, fence};
pub use once::{OnceIn, done_at, forget_older_than, once_in};
pub use tables::{SCHEMA, create_tables};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmePage;
