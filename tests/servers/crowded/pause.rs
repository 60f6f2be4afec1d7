//! A thousand requests of one process wait for names that another process holds.

use std::{future::IntoFuture, time::Duration};

use futures_util::StreamExt;
use tokio::{task::JoinSet, time::timeout};
use tower_redlock::{Lock, Redlock};

use crate::fixture::{Fixture, HANG_GUARD, LONG, RedisServer};

const WAITERS: usize = 1_000;
/// Longer than the guard for one request, as a thousand of them run.
const GUARD: Duration = HANG_GUARD.saturating_mul(5);
/// Longer than the time until a connection to a silent server is replaced.
const PAUSE: Duration = Duration::from_secs(1);

fn name(waiter: usize) -> String {
    format!("crowd:{waiter}")
}

/// Acquires every name, in batches.
async fn hold_all(redlock: &Redlock) -> Vec<Lock> {
    let requests = (0..WAITERS).map(|i| redlock.lock(name(i)).wait(LONG).into_future());
    let held = futures_util::stream::iter(requests).buffer_unordered(64);
    held.map(Result::unwrap).collect().await
}

fn wait_for_all(redlock: &Redlock) -> JoinSet<()> {
    let mut waiting = JoinSet::new();
    for i in 0..WAITERS {
        let request = redlock.lock(name(i)).wait(2 * LONG);
        waiting.spawn(async move { drop(request.await.unwrap()) });
    }
    waiting
}

/// Waits until the servers have a subscription of every waiter.
async fn all_listen(fixture: &Fixture) {
    let channels = Some(WAITERS.to_string());
    let listens = |server: &RedisServer| server.info("stats", "pubsub_channels") == channels;
    let all = async {
        while !fixture.servers.iter().all(listens) {
            // Pause between queries: the servers send no event for it.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(GUARD, all).await.expect("every waiter subscribes on every server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_of_the_servers_heals() {
    let fixture = Fixture::new(3);
    let holder = fixture.direct(Redlock::builder().ttl(LONG)).await;
    let crowded = fixture.direct(Redlock::builder()).await;
    let held = hold_all(&holder).await;
    let renewed = crowded.lock("renewed").ttl(Duration::from_secs(3)).await.unwrap();
    let mut waiting = wait_for_all(&crowded);
    all_listen(&fixture).await;

    let silent = &fixture.servers[..2];
    silent.iter().for_each(RedisServer::freeze);
    // The clients have to survive the silence.
    tokio::time::sleep(PAUSE).await;
    silent.iter().for_each(RedisServer::thaw);
    drop(held);

    let all = async { while waiting.join_next().await.transpose().unwrap().is_some() {} };
    let in_time = timeout(GUARD, all).await.is_ok();
    assert!(in_time, "{} of {WAITERS} wait for free names", waiting.len());
    assert!(renewed.is_valid(), "{:?}", renewed.lost().await);
}
