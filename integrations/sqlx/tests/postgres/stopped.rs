//! A holder is stopped for longer than its lock is valid, and continues.

use std::time::Duration;

use futures_util::future::join;
use rustix::process::Signal;
use sqlx::{Connection, PgConnection, PgPool, postgres::PgConnectOptions};
use tower_redlock::{FencingToken, Lock, Redlock};
use tower_redlock_sqlx::{FenceError, fence};

use crate::{
    child::{TestProcess, await_parent, orders, say},
    cluster::{Cluster, balance, waiting_sessions},
    support::{RedisServer, connected, over, urls},
};

const TTL: Duration = Duration::from_secs(1);
/// Of the holder's connection: longer than the next holder needs to begin, on a busy machine.
const IDLE_TIMEOUT: &str = "8s";
const WAIT: Duration = Duration::from_secs(60);

async fn manager(urls: impl IntoIterator<Item = String>) -> Redlock {
    let builder = Redlock::builder().ttl(TTL).node_timeout(TTL / 10);
    connected(over(builder, urls)).await
}

async fn withdraw(
    tx: &mut sqlx::Transaction<'_, sqlx::Postgres>,
    amount: i64,
    token: FencingToken,
    pause: impl FnOnce(),
) -> Result<(), FenceError> {
    fence(tx, "account:1", token).await?;
    let before: i64 = sqlx::query_scalar("SELECT balance FROM accounts WHERE id = 1")
        .fetch_one(&mut **tx)
        .await?;
    pause();
    let change = "UPDATE accounts SET balance = $1 WHERE id = 1";
    sqlx::query(change).bind(before - amount).execute(&mut **tx).await?;
    Ok(())
}

/// Withdraws 50 under the lock, and stops where it is told to: before its transaction, or within.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder() {
    let Some(orders) = orders() else { return };
    let mut orders = orders.split(' ').map(str::to_owned);
    let (place, database) = (orders.next().unwrap(), orders.next().unwrap());
    let redlock = manager(orders).await;
    let database: PgConnectOptions = database.parse().unwrap();
    let database = database.options([("idle_in_transaction_session_timeout", IDLE_TIMEOUT)]);
    let mut database = PgConnection::connect_with(&database).await.unwrap();
    // The work does not ask whether the lock is valid: PostgreSQL has to find out.
    let lock = redlock.lock("account:1").wait(WAIT).await.unwrap();
    let stop = || {
        say("holds the lock");
        await_parent();
    };
    if place == "before" {
        stop();
    }
    let result = async {
        let mut tx = database.begin().await?;
        let pause = || {
            if place == "within" {
                stop();
            }
        };
        withdraw(&mut tx, 50, lock.fencing_token(), pause).await?;
        Ok::<_, FenceError>(tx.commit().await?)
    };
    match result.await {
        Ok(()) => say("committed"),
        Err(FenceError::Stale { token, stored, .. }) => say(&format!("stale: {}", token < stored)),
        Err(error) => say(&format!("refused: {error}")),
    }
}

/// Runs the holder, stops it, withdraws 30 as the next holder, lets it continue, and returns what it says.
async fn stopped(place: &str) -> (String, i64) {
    let (cluster, pool) = Cluster::start().await;
    let servers = RedisServer::start_n(3);
    let urls: Vec<_> = urls(&servers);
    let orders = format!("{place} {} {}", cluster.url(), urls.join(" "));
    let mut holder = TestProcess::start("stopped::holder", &orders);
    assert_eq!(holder.hear(), "holds the lock");
    holder.signal(Signal::STOP);

    let redlock = manager(urls).await;
    let lock = redlock.lock("account:1").wait(WAIT).await.unwrap();
    if place == "within" {
        // The next holder waits until PostgreSQL ends the open transaction.
        join(pay(&pool, &lock), waiting_sessions(&pool, 1)).await;
    } else {
        pay(&pool, &lock).await;
    }
    assert_eq!(balance(&pool).await, 70);

    holder.signal(Signal::CONT);
    holder.go();
    let said = holder.hear();
    (said, balance(&pool).await)
}

async fn pay(pool: &PgPool, lock: &Lock) {
    let mut tx = pool.begin().await.unwrap();
    withdraw(&mut tx, 30, lock.fencing_token(), || ()).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_transaction_is_stale() {
    let (said, balance) = stopped("before").await;

    assert_eq!(said, "stale: true");
    assert_eq!(balance, 70, "the late withdrawal has no effect");
}

/// The transaction holds the row of the resource, until the database ends it as idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_transaction_is_ended_and_its_commit_fails() {
    let (said, balance) = stopped("within").await;

    assert!(said.starts_with("refused: "), "{said}");
    assert_eq!(balance, 70, "the late withdrawal has no effect");
}
