//! Servers, and counts of their commands.

use std::{future::IntoFuture, time::Duration};

use tokio::task::JoinHandle;
use tower_redlock::{Lock, LockError, Redlock, RedlockBuilder};

use crate::support::{self, HANG_GUARD, RedisServer, eventually_async, over};
pub(super) use crate::support::{patient, urls};

/// No pause of this length ends within a test.
const NEVER: Duration = Duration::from_secs(600);

/// A waiter that is not woken retries only after the test has failed.
pub(super) fn woken_or_never() -> RedlockBuilder {
    patient().retry_delay(NEVER..=NEVER)
}

pub(super) async fn connected<I>(builder: RedlockBuilder, urls: I) -> Redlock
where
    I: IntoIterator,
    I::Item: Into<String>,
{
    support::connected(over(builder, urls)).await
}

/// A request that waits in a task of its own.
pub(super) fn wait_for(redlock: &Redlock, name: &str) -> JoinHandle<Result<Lock, LockError>> {
    tokio::spawn(redlock.lock(name).wait(6 * HANG_GUARD).into_future())
}

/// How many listen for releases of a name.
pub(super) fn listeners(server: &RedisServer, name: &str) -> i64 {
    let channel = format!("redlock:free:{name}");
    server.cli(&["PUBSUB", "NUMSUB", &channel]).items()[1].int()
}

pub(super) async fn listening(servers: &[RedisServer], name: &str, count: i64) {
    eventually_async("the servers know who listens", async || {
        servers.iter().all(|server| listeners(server, name) == count)
    })
    .await;
}

/// How many scripts were called by digest: acquires, releases, and nothing else here.
pub(super) fn calls(server: &RedisServer) -> u64 {
    let stats = server.info("commandstats", "cmdstat_evalsha").unwrap_or_default();
    let calls = stats.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// The sums of [`calls`] once no more commands arrive.
pub(super) async fn settled_calls(servers: &[RedisServer]) -> u64 {
    let sum = || servers.iter().map(calls).sum::<u64>();
    let mut last = sum();
    let mut same = 0;
    eventually_async("nothing is asked for any more", async || {
        let now = sum();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same >= 10
    })
    .await;
    last
}

/// How many connections a server has, this question's not counted.
pub(super) fn connections(server: &RedisServer) -> usize {
    server.cli(&["CLIENT", "LIST"]).text().lines().count() - 1
}

/// Within ten times what is expected.
pub(super) async fn granted(waiting: JoinHandle<Result<Lock, LockError>>) -> Lock {
    tokio::time::timeout(HANG_GUARD, waiting).await.expect("woken").unwrap().unwrap()
}
