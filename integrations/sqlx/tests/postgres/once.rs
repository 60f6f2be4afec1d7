//! Work that is recorded in the transaction of its effect.

use std::time::{Duration, SystemTime};

use sqlx::{PgPool, Postgres, Transaction};
use tower_redlock_sqlx::{OnceIn, done_at, forget_older_than, once_in};

use crate::{
    cluster::{Cluster, balance, waiting_sessions},
    support::in_time,
};

const HOUR: Duration = Duration::from_secs(3_600);

/// A payment of 30 from account 1, which is not committed yet.
async fn pay(pool: &PgPool, key: &str) -> (Transaction<'static, Postgres>, OnceIn) {
    let mut tx = pool.begin().await.unwrap();
    let once = once_in(&mut tx, "payments", key).await.unwrap();
    if once == OnceIn::New {
        let change = "UPDATE accounts SET balance = balance - 30 WHERE id = 1";
        sqlx::query(change).execute(&mut *tx).await.unwrap();
    }
    (tx, once)
}

#[tokio::test]
async fn effect_and_record_are_kept_together() {
    let (_cluster, pool) = Cluster::start().await;
    let (tx, once) = pay(&pool, "7").await;
    assert_eq!(once, OnceIn::New);
    tx.rollback().await.unwrap();
    assert_eq!(done_at(&pool, "payments", "7").await.unwrap(), None);

    let (tx, once) = pay(&pool, "7").await;
    assert_eq!(once, OnceIn::New);
    tx.commit().await.unwrap();

    let (_tx, once) = pay(&pool, "7").await;
    let OnceIn::AlreadyDone { at } = once else { panic!("it is paid twice") };
    let age = SystemTime::now().duration_since(at).unwrap_or_else(|ahead| ahead.duration());
    assert!(age < HOUR, "{age:?}");
    assert_eq!(done_at(&pool, "payments", "7").await.unwrap(), Some(at));
    assert_eq!(done_at(&pool, "refunds", "7").await.unwrap(), None);
    assert_eq!(balance(&pool).await, 70);
}

#[tokio::test]
async fn duplicates_wait_for_the_first_one() {
    let (_cluster, pool) = Cluster::start().await;
    let (first, _) = pay(&pool, "7").await;
    let duplicates: Vec<_> = (0..3)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let (tx, once) = pay(&pool, "7").await;
                tx.commit().await.unwrap();
                once
            })
        })
        .collect();
    waiting_sessions(&pool, 3).await;

    first.commit().await.unwrap();

    for duplicate in duplicates {
        let once = in_time(async { duplicate.await.unwrap() }).await;
        assert!(matches!(once, OnceIn::AlreadyDone { .. }), "{once:?}");
    }
    assert_eq!(balance(&pool).await, 70);
}

#[tokio::test]
async fn old_records_are_deleted() {
    let (_cluster, pool) = Cluster::start().await;
    for key in ["old", "new"] {
        pay(&pool, key).await.0.commit().await.unwrap();
    }
    let age =
        "UPDATE tower_redlock_once SET done_at = done_at - interval '2 hours' WHERE key = 'old'";
    sqlx::query(age).execute(&pool).await.unwrap();

    assert_eq!(forget_older_than(&pool, "refunds", HOUR).await.unwrap(), 0);
    assert_eq!(forget_older_than(&pool, "payments", Duration::MAX).await.unwrap(), 0);
    assert_eq!(forget_older_than(&pool, "payments", HOUR).await.unwrap(), 1);

    assert_eq!(done_at(&pool, "payments", "old").await.unwrap(), None);
    assert!(done_at(&pool, "payments", "new").await.unwrap().is_some());
}
