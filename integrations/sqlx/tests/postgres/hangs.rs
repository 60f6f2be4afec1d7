//! PostgreSQL, or all lock servers, stop answering for a while at each step of a payment, and continue.

use std::{cell::Cell, time::Duration};

use futures_util::future::{join, join_all};
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tower_redlock::{FencingToken, GuardError, LockError, Redlock};
use tower_redlock_sqlx::{FenceError, OnceIn, fence, once_in};

use crate::{
    cluster::Cluster,
    support::{Proxy, RedisServer, connected, in_time, over, urls},
};

const TTL: Duration = Duration::from_secs(1);
const HANGS: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(3)];
const STEPS: [Step; 4] = [Step::Fence, Step::Record, Step::Effect, Step::Commit];
/// Time after which a client of the payment gives up, and tries again.
const CLIENT_TIMEOUT: Duration = Duration::from_millis(500);
const WAIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Fence,
    Record,
    Effect,
    Commit,
}

/// Pays 1 from an account, once. `before` acts before each step.
async fn pay(
    pool: &PgPool,
    account: i64,
    token: FencingToken,
    before: impl AsyncFn(Step),
) -> Result<OnceIn, FenceError> {
    let mut tx = pool.begin().await?;
    before(Step::Fence).await;
    fence(&mut tx, format!("account:{account}"), token).await?;
    before(Step::Record).await;
    let once = once_in(&mut tx, "payments", &account.to_string()).await?;
    if once == OnceIn::New {
        before(Step::Effect).await;
        let change = "UPDATE accounts SET balance = balance - 1 WHERE id = $1";
        sqlx::query(change).bind(account).execute(&mut *tx).await?;
    }
    before(Step::Commit).await;
    tx.commit().await?;
    Ok(once)
}

async fn manager(servers: &[RedisServer]) -> Redlock {
    connected(over(Redlock::builder().ttl(TTL).node_timeout(TTL / 10), urls(servers))).await
}

async fn open_account(pool: &PgPool, account: i64) {
    let open = "INSERT INTO accounts VALUES ($1, 100) ON CONFLICT (id) DO NOTHING";
    sqlx::query(open).bind(account).execute(pool).await.unwrap();
}

async fn balance_of(pool: &PgPool, account: i64) -> i64 {
    let balance = "SELECT balance FROM accounts WHERE id = $1";
    sqlx::query_scalar(balance).bind(account).fetch_one(pool).await.unwrap()
}

/// Pays under the lock over a connection that hangs before `step`. The client gives up, and pays again until it is told
/// that it has paid.
async fn paid_over_hanging_database(
    cluster: &Cluster,
    redlock: &Redlock,
    account: i64,
    (step, hang): (Step, Duration),
) {
    let proxy = Proxy::start(cluster.addr());
    let options = cluster.options().port(proxy.addr().port());
    let pool = PgPoolOptions::new().max_connections(8).connect_with(options).await.unwrap();
    open_account(&pool, account).await;
    let (is_first, stalled) = (Cell::new(true), Notify::new());
    let before = async |at| {
        if at == step && is_first.replace(false) {
            proxy.stall();
            stalled.notify_one();
        }
    };
    let before = &before;
    let resumed = async {
        stalled.notified().await;
        sleep(hang).await;
        proxy.resume();
    };
    let paying = async {
        loop {
            let request = redlock.lock(format!("account:{account}")).wait(WAIT);
            let lock = request.await.unwrap();
            let paid = pay(&pool, account, lock.fencing_token(), before);
            if let Ok(paid) = timeout(CLIENT_TIMEOUT, paid).await {
                return paid.unwrap();
            }
        }
    };
    let (paid, ()) = in_time(join(paying, resumed)).await;

    assert_eq!(balance_of(&pool, account).await, 99, "{step:?}, {hang:?}: {paid:?}");
}

#[tokio::test]
async fn payment_over_hanging_database_is_made_once() {
    let (cluster, pool) = Cluster::start().await;
    let servers = RedisServer::start_n(3);
    let redlock = manager(&servers).await;
    let cases: Vec<_> = STEPS.iter().flat_map(|step| HANGS.map(|hang| (*step, hang))).collect();
    drop(pool);

    let (cluster, redlock) = (&cluster, &redlock);
    join_all(
        (100..)
            .zip(cases)
            .map(|(account, case)| paid_over_hanging_database(cluster, redlock, account, case)),
    )
    .await;
}

/// The work waits while no lock server answers, and is dropped where its lock ends meanwhile.
#[tokio::test]
async fn payment_under_hanging_lock_servers_is_made_once() {
    let (_cluster, pool) = Cluster::start().await;
    let servers = RedisServer::start_n(3);
    let redlock = manager(&servers).await;
    let steps = [Step::Fence, Step::Commit];
    let cases = steps.iter().flat_map(|step| HANGS.map(|hang| (*step, hang)));

    for (account, (step, hang)) in (100..).zip(cases) {
        open_account(&pool, account).await;
        let (is_first, frozen, losses) = (Cell::new(true), Notify::new(), Cell::new(0));
        let before = async |at| {
            if at == step && is_first.replace(false) {
                servers.iter().for_each(RedisServer::freeze);
                frozen.notify_one();
                sleep(hang).await;
            }
        };
        let before = &before;
        let resumed = async {
            frozen.notified().await;
            sleep(hang).await;
            servers.iter().for_each(RedisServer::thaw);
        };
        let paying = async {
            loop {
                let request = redlock.lock(format!("account:{account}")).wait(WAIT);
                let work = async |token| pay(&pool, account, token, before).await;
                match request.try_run(|cx| work(cx.fencing_token())).await {
                    Ok(paid) => return paid,
                    Err(GuardError::Lock(LockError::Lost { .. })) => losses.set(losses.get() + 1),
                    Err(error) => panic!("{step:?}, {hang:?}: {error}"),
                }
            }
        };
        let (paid, ()) = in_time(join(paying, resumed)).await;

        assert_eq!(paid, OnceIn::New, "{step:?}, {hang:?}: the lost transaction is rolled back");
        assert_eq!(balance_of(&pool, account).await, 99, "{step:?}, {hang:?}");
        assert!(losses.get() > 0 || hang <= TTL, "{step:?}, {hang:?}: {} losses", losses.get());
    }
}
