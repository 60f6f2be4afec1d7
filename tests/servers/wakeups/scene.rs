//! Servers, and counts of their commands.

use std::{future::IntoFuture, time::Duration};

use tokio::task::JoinHandle;
use tower_redlock::{Lock, LockError, Redlock, RedlockBuilder};

use crate::support::{self, HANG_GUARD, RedisServer, eventually_async, over};
pub(super) use crate::support::{patient, urls};

/// No pause of this length ends within a test.
const NEVER: Duration = Duration::from_secs(600);

/// Settings under which a waiter that is not woken retries only after the test has failed.
pub(super) fn woken_or_never() -> RedlockBuilder {
    patient().retry_delay(NEVER..=NEVER)
}

pub(super) async fn connected<I>(builder: RedlockBuilder, urls: I) -> Redlock
where
    I: IntoIterator,
    I::Item: Into<tower_redlock::node::redis::NodeAddress>,
{
    support::connected(over(builder, urls)).await
}

/// A request that waits in a separate task.
pub(super) fn wait_for(redlock: &Redlock, name: &str) -> JoinHandle<Result<Lock, LockError>> {
    tokio::spawn(redlock.lock(name).wait(6 * HANG_GUARD).into_future())
}

/// Number of subscribers to releases of a name.
pub(super) fn listeners(server: &RedisServer, name: &str) -> i64 {
    let channel = format!("redlock:free:{name}");
    server.cli(&["PUBSUB", "NUMSUB", &channel]).items()[1].int()
}

pub(super) async fn listening(servers: &[RedisServer], name: &str, count: i64) {
    eventually_async("the servers have the subscriptions", async || {
        servers.iter().all(|server| listeners(server, name) == count)
    })
    .await;
}

/// Number of calls of scripts by digest, which are only acquires and releases here.
pub(super) fn calls(server: &RedisServer) -> u64 {
    server.calls("evalsha")
}

/// The sums of [`calls`] once no more commands arrive.
pub(super) async fn settled_calls(servers: &[RedisServer]) -> u64 {
    let sum = || servers.iter().map(calls).sum::<u64>();
    let mut last = sum();
    let mut same = 0;
    eventually_async("no more commands arrive", async || {
        let now = sum();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same >= 10
    })
    .await;
    last
}

/// Number of connections of a server, without the one of this query.
pub(super) fn connections(server: &RedisServer) -> usize {
    server.cli(&["CLIENT", "LIST"]).text().lines().count() - 1
}

/// Waits up to ten times the expected duration.
pub(super) async fn granted(waiting: JoinHandle<Result<Lock, LockError>>) -> Lock {
    tokio::time::timeout(HANG_GUARD, waiting).await.expect("woken").unwrap().unwrap()
}
