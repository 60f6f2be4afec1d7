//! Several processes write, and one is killed between an effect and its answer.

use rustix::process::Signal;
use sqlx::PgPool;
use tower_redlock::FencingToken;
use tower_redlock_sqlx::{FenceError, OnceIn, fence, once_in};

use crate::{
    child::{TestProcess, await_parent, orders, say},
    cluster::{Cluster, balance},
};

const PROCESSES: i64 = 2;
const TASKS: i64 = 4;
/// Number of transactions of all processes.
const TRANSACTIONS: i64 = 10_000;

/// Makes one transaction under the next token. No lock keeps it from others, so many are too late.
async fn write(pool: &PgPool) -> Result<(), FenceError> {
    let token: i64 = sqlx::query_scalar("SELECT nextval('tokens')").fetch_one(pool).await?;
    let mut tx = pool.begin().await?;
    fence(&mut tx, "account:1", FencingToken::new(token.unsigned_abs())).await?;
    // A lost update, if another transaction came between.
    let before: i64 =
        sqlx::query_scalar("SELECT balance FROM accounts WHERE id = 1").fetch_one(&mut *tx).await?;
    let after = "UPDATE accounts SET balance = $1 WHERE id = 1";
    sqlx::query(after).bind(before - 1).execute(&mut *tx).await?;
    sqlx::query("INSERT INTO writes (token) VALUES ($1)").bind(token).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}

#[tokio::test]
async fn writer() {
    let Some(url) = orders() else { return };
    let pool = PgPool::connect(&url).await.unwrap();
    let task = || {
        let pool = pool.clone();
        tokio::spawn(async move {
            let mut stale = 0;
            for _ in 0..TRANSACTIONS / PROCESSES / TASKS {
                match write(&pool).await {
                    Ok(()) => {}
                    Err(FenceError::Stale { token, stored, .. }) => {
                        assert!(token < stored);
                        stale += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            stale
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(|_| task()).collect();
    let mut stale = 0;
    for task in tasks {
        stale += task.await.unwrap();
    }
    say(&stale.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_processes_are_in_the_order_of_tokens() {
    let (cluster, pool) = Cluster::start().await;
    let tables = "CREATE SEQUENCE tokens; CREATE TABLE writes (number bigserial, token bigint)";
    sqlx::raw_sql(tables).execute(&pool).await.unwrap();
    let mut processes: Vec<_> =
        (0..PROCESSES).map(|_| TestProcess::start("processes::writer", &cluster.url())).collect();

    let stale: i64 =
        processes.iter_mut().map(|process| process.hear().parse::<i64>().unwrap()).sum();

    let of_order = "SELECT token FROM writes ORDER BY number";
    let written: Vec<i64> = sqlx::query_scalar(of_order).fetch_all(&pool).await.unwrap();
    println!("{} transactions passed, {stale} were refused", written.len());
    assert!(written.windows(2).all(|pair| pair[0] < pair[1]), "in the order of their tokens");
    let passed = i64::try_from(written.len()).unwrap();
    assert_eq!(passed + stale, TRANSACTIONS);
    assert!(stale > 0 && passed > 0);
    assert_eq!(balance(&pool).await, 100 - passed, "no update is lost");
}

/// Pays 30 from account 1, and waits before and after the commit.
#[tokio::test]
async fn payer() {
    let Some(url) = orders() else { return };
    let pool = PgPool::connect(&url).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let once = once_in(&mut tx, "payments", "order:7").await.unwrap();
    if once == OnceIn::New {
        let change = "UPDATE accounts SET balance = balance - 30 WHERE id = 1";
        sqlx::query(change).execute(&mut *tx).await.unwrap();
    }
    say(if once == OnceIn::New { "paid" } else { "was paid before" });
    await_parent();
    tx.commit().await.unwrap();
    say("committed");
    await_parent();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_process_has_paid_once_or_not_at_all() {
    let (cluster, pool) = Cluster::start().await;
    let start = || TestProcess::start("processes::payer", &cluster.url());

    // Between the effect and its commit.
    let mut first = start();
    assert_eq!(first.hear(), "paid");
    first.signal(Signal::KILL);
    drop(first);
    assert_eq!(balance(&pool).await, 100);

    // Between the commit and the answer.
    let mut second = start();
    assert_eq!(second.hear(), "paid", "the first attempt had no effect");
    second.go();
    assert_eq!(second.hear(), "committed");
    second.signal(Signal::KILL);
    drop(second);

    let mut third = start();
    assert_eq!(third.hear(), "was paid before");
    third.go();
    assert_eq!(third.hear(), "committed");
    assert_eq!(balance(&pool).await, 70);
}
