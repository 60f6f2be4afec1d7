//! Withdrawals run one at a time for each account, and PostgreSQL refuses the withdrawals of a holder whose lock has ended.
//!
//! ```text
//! DATABASE_URL=postgres://postgres@127.0.0.1/postgres cargo run -p tower-redlock-sqlx --example withdrawals
//!
//! curl -X POST localhost:8080/accounts/1/withdraw/30
//! ```
//!
//! `REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3` names the servers; without it,
//! the nodes are inside the process. `LISTEN` is the address to listen on. Ctrl-C stops it.

use std::{env, error::Error, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::post,
};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{net::TcpListener, signal};
use tower_redlock::{LockContext, Redlock, RedlockLayer, key};
use tower_redlock_sqlx::{FenceError, create_tables, fence};

async fn withdraw(
    State(pool): State<PgPool>,
    Path((account, amount)): Path<(i64, u32)>,
    lock: LockContext,
) -> Result<String, Refusal> {
    let mut tx = pool.begin().await?;
    // First: what is read from here on, no other holder changes before the end of the transaction.
    fence(&mut tx, lock.resource(), lock.fencing_token()).await?;
    let balance: i64 = sqlx::query_scalar("SELECT balance FROM accounts WHERE id = $1")
        .bind(account)
        .fetch_optional(&mut *tx)
        .await?
        .ok_or(Refusal(StatusCode::NOT_FOUND))?;
    let after = balance - i64::from(amount);
    if after < 0 {
        return Err(Refusal(StatusCode::UNPROCESSABLE_ENTITY));
    }
    sqlx::query("UPDATE accounts SET balance = $2 WHERE id = $1")
        .bind(account)
        .bind(after)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(format!("{after} left, under token {}\n", lock.fencing_token()))
}

/// What the client gets instead of its withdrawal.
struct Refusal(StatusCode);

impl From<FenceError> for Refusal {
    fn from(error: FenceError) -> Self {
        eprintln!("refused: {error}");
        match error {
            FenceError::Stale { .. } => Self(StatusCode::PRECONDITION_FAILED),
            _ => Self(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        FenceError::from(error).into()
    }
}

impl axum::response::IntoResponse for Refusal {
    fn into_response(self) -> axum::response::Response {
        self.0.into_response()
    }
}

async fn database() -> Result<PgPool, Box<dyn Error>> {
    // A transaction that is idle for this long is rolled back, so that a process that is stopped keeps no other one from
    // the account.
    let options: PgConnectOptions = env::var("DATABASE_URL")?.parse()?;
    let options = options.options([("idle_in_transaction_session_timeout", "10s")]);
    let pool = PgPoolOptions::new().connect_with(options).await?;
    create_tables(&pool).await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS accounts (id bigint PRIMARY KEY, balance bigint NOT NULL); \
         INSERT INTO accounts VALUES (1, 100) ON CONFLICT DO NOTHING",
    )
    .execute(&pool)
    .await?;
    Ok(pool)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = match env::var("REDLOCK_NODES") {
        Ok(urls) => Redlock::builder().nodes(urls.split(',')).build()?,
        Err(_) => Redlock::embedded(),
    };
    // A new or restarted server votes after `max_ttl` (10 s): it may have forgotten locks.
    redlock.ready_within(Duration::from_secs(60)).await?;
    let pool = database().await?;

    let account = key::path_param("id").parsed::<i64>().prefixed("account:");
    let one_at_a_time = RedlockLayer::new(redlock.clone(), account).wait(Duration::from_secs(5));
    let withdraw = post(withdraw).route_layer(one_at_a_time.http());
    let app = Router::new().route("/accounts/{id}/withdraw/{amount}", withdraw).with_state(pool);

    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".into());
    let listener = TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(async { signal::ctrl_c().await.unwrap_or_default() })
        .await?;
    // Waits until the nodes have acknowledged every release.
    redlock.shutdown().await;
    Ok(())
}
