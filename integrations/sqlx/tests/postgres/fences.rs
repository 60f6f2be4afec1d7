//! Transactions under fencing tokens.

use sqlx::{PgPool, Postgres, Transaction};
use tower_redlock::{FencingToken, Resource};
use tower_redlock_sqlx::{FenceError, fence};

use crate::{
    cluster::{Cluster, balance, waiting_sessions},
    support::in_time,
};

const fn token(number: u64) -> FencingToken {
    FencingToken::new(number)
}

/// A transaction on account 1, whose effect is the new balance.
async fn set_balance(
    pool: &PgPool,
    number: u64,
    balance: i64,
) -> Result<Transaction<'static, Postgres>, FenceError> {
    let mut tx = pool.begin().await?;
    fence(&mut tx, "account:1", token(number)).await?;
    let change = "UPDATE accounts SET balance = $1 WHERE id = 1";
    sqlx::query(change).bind(balance).execute(&mut *tx).await?;
    Ok(tx)
}

/// The token that an error names as stored.
fn stored(result: Result<Transaction<'static, Postgres>, FenceError>) -> u64 {
    match result {
        Err(FenceError::Stale { stored, .. }) => stored.get(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the transaction of a former holder passes"),
    }
}

#[tokio::test]
async fn smaller_token_is_stale_and_an_equal_one_passes() {
    let (_cluster, pool) = Cluster::start().await;
    set_balance(&pool, 5, 50).await.unwrap().commit().await.unwrap();

    let error = set_balance(&pool, 4, 40).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(stored(Err(error)), 5);
    assert!(text.contains("account:1") && text.contains("token 4 is below 5"), "{text}");
    assert_eq!(balance(&pool).await, 50);

    set_balance(&pool, 5, 51).await.unwrap().commit().await.unwrap();
    set_balance(&pool, 6, 60).await.unwrap().commit().await.unwrap();
    assert_eq!(balance(&pool).await, 60);
}

#[tokio::test]
async fn rolled_back_transaction_leaves_no_fence() {
    let (_cluster, pool) = Cluster::start().await;
    set_balance(&pool, 5, 50).await.unwrap().rollback().await.unwrap();

    set_balance(&pool, 4, 40).await.unwrap().commit().await.unwrap();

    assert_eq!(balance(&pool).await, 40);
}

#[tokio::test]
async fn names_of_a_resource_pass_all_or_none() {
    let (_cluster, pool) = Cluster::start().await;
    let mut tx = pool.begin().await.unwrap();
    fence(&mut tx, "b", token(7)).await.unwrap();
    tx.commit().await.unwrap();

    let all = Resource::new(["c", "b", "a"]).unwrap();
    let mut tx = pool.begin().await.unwrap();
    match fence(&mut tx, &all, token(6)).await {
        Err(FenceError::Stale { resource, stored, .. }) => {
            assert_eq!((&*resource, stored), ("b", token(7)));
        }
        other => panic!("{other:?}"),
    }
    drop(tx);
    let others = "SELECT count(*) FROM tower_redlock_fences WHERE resource IN ('a', 'c')";
    assert_eq!(sqlx::query_scalar::<_, i64>(others).fetch_one(&pool).await.unwrap(), 0);
    let mut tx = pool.begin().await.unwrap();
    fence(&mut tx, &all, token(8)).await.unwrap();
    tx.commit().await.unwrap();
    let fences = "SELECT count(*) FROM tower_redlock_fences WHERE token = 8";
    assert_eq!(sqlx::query_scalar::<_, i64>(fences).fetch_one(&pool).await.unwrap(), 3);
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    let (_cluster, pool) = Cluster::start().await;
    let mut tx = pool.begin().await.unwrap();

    let no_token = fence(&mut tx, "a", FencingToken::default()).await.unwrap_err();
    let beyond = fence(&mut tx, "a", token(1 << 53)).await.unwrap_err();
    let no_name = fence(&mut tx, "", token(1)).await.unwrap_err();

    assert!(matches!(no_token, FenceError::NoToken), "{no_token}");
    assert!(matches!(beyond, FenceError::InvalidToken(_)), "{beyond}");
    assert!(matches!(no_name, FenceError::InvalidResource(_)), "{no_name}");
    assert!(!no_token.is_retryable() && !no_name.is_retryable());
    fence(&mut tx, "a", token(1)).await.expect("the transaction goes on");
}

#[tokio::test]
async fn later_holder_waits_for_an_open_transaction() {
    let (_cluster, pool) = Cluster::start().await;
    let first = set_balance(&pool, 4, 40).await.unwrap();
    // It writes to nothing else that the first one has locked.
    let later = tokio::spawn({
        let pool = pool.clone();
        async move {
            let mut tx = pool.begin().await.unwrap();
            fence(&mut tx, "account:1", token(5)).await.unwrap();
            let seen = "SELECT balance FROM accounts WHERE id = 1";
            sqlx::query_scalar::<_, i64>(seen).fetch_one(&mut *tx).await.unwrap()
        }
    });
    waiting_sessions(&pool, 1).await;

    first.commit().await.unwrap();

    let seen = in_time(async { later.await.unwrap() }).await;
    assert_eq!(seen, 40, "it reads what the former holder has written");
}

#[tokio::test]
async fn former_holder_waits_and_is_stale() {
    let (_cluster, pool) = Cluster::start().await;
    let later = set_balance(&pool, 5, 50).await.unwrap();
    let former = tokio::spawn({
        let pool = pool.clone();
        async move { set_balance(&pool, 4, 40).await }
    });
    waiting_sessions(&pool, 1).await;

    later.commit().await.unwrap();

    assert_eq!(stored(in_time(async { former.await.unwrap() }).await), 5);
    assert_eq!(balance(&pool).await, 50);
}

#[tokio::test]
async fn serialization_failures_are_retryable() {
    let (_cluster, pool) = Cluster::start().await;
    let mut tx = pool.begin().await.unwrap();
    sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT * FROM accounts")
        .execute(&mut *tx)
        .await
        .unwrap();
    set_balance(&pool, 5, 50).await.unwrap().commit().await.unwrap();

    let error = fence(&mut tx, "account:1", token(6)).await.unwrap_err();

    assert!(error.is_retryable(), "{error}");
    drop(tx);
    set_balance(&pool, 6, 60).await.unwrap().commit().await.unwrap();
}
