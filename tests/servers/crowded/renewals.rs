//! Thousands of locks of one process are renewed.

use std::{future::IntoFuture, time::Duration};

use futures_util::future::join_all;
use tower_redlock::lock::ThreadSpawner;

use crate::fixture::{HANG_GUARD, RedisServer, connected, eventually_async, over, patient};

/// All renewals of a process wait in one ordered map on one thread, and share writes.
#[tokio::test]
async fn many_renewals_share_few_writes() {
    const LOCKS: usize = 2_000;
    let server = RedisServer::start();
    let ttl = Duration::from_secs(9);
    let builder = patient().ttl(ttl).spawner(ThreadSpawner::start().unwrap());
    let redlock = connected(over(builder, [server.url()])).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let locks = join_all((0..LOCKS).map(|i| {
        let request = redlock.lock(format!("x{i}")).wait(HANG_GUARD);
        request.into_future()
    }))
    .await;
    let locks: Vec<_> = locks.into_iter().map(Result::unwrap).collect();
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), tasks);
    let reads =
        || -> usize { server.info("stats", "total_reads_processed").unwrap().parse().unwrap() };
    let before = reads();
    // A renewal begins when a third of the validity has passed.
    let shortest = |at_least: Duration| locks.iter().all(|lock| lock.remaining() > at_least);
    eventually_async("the first renewal is due", async || !shortest(ttl * 2 / 3)).await;
    eventually_async("all are renewed", async || shortest(ttl * 2 / 3)).await;
    let used = reads() - before;
    assert!(used < LOCKS / 10, "{used} reads of the server for {LOCKS} renewals");
    assert!(locks.iter().all(tower_redlock::Lock::is_valid));
    drop(locks);
    redlock.shutdown().await;
}
