//! The tables are created.

use futures_util::future::join_all;
use tower_redlock_sqlx::{OnceIn, create_tables, once_in};

use crate::{cluster::Cluster, support::in_time};

#[tokio::test]
async fn processes_create_them_at_once_and_again() {
    let (_cluster, pool) = Cluster::start().await;
    sqlx::raw_sql("DROP TABLE tower_redlock_fences, tower_redlock_once")
        .execute(&pool)
        .await
        .unwrap();

    let created = join_all((0..8).map(|_| create_tables(&pool))).await;

    created.into_iter().for_each(Result::unwrap);
    let tables = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'tower_redlock_%'";
    assert_eq!(sqlx::query_scalar::<_, i64>(tables).fetch_one(&pool).await.unwrap(), 2);
}

#[tokio::test]
async fn existing_ones_wait_for_no_transaction() {
    let (_cluster, pool) = Cluster::start().await;
    let mut open = pool.begin().await.unwrap();
    assert_eq!(once_in(&mut open, "payments", "7").await.unwrap(), OnceIn::New);

    in_time(async { create_tables(&pool).await.unwrap() }).await;

    open.rollback().await.unwrap();
}
