//! Idle locks that stay with their process, and are released when others request them.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{LockError, Redlock, RedlockBuilder};

use super::scene::{calls, connected, granted, patient, settled_calls, urls, wait_for};
use crate::support::{RedisServer, eventually_async};

/// Longer than any test; but the default TTL bounds it.
const LINGER: Duration = Duration::from_secs(3_600);

fn lingering() -> RedlockBuilder {
    patient().ttl(Duration::from_secs(60)).linger(LINGER)
}

/// Waits until the manager keeps idle locks: its subscriptions are active.
async fn ready(redlock: &Redlock) {
    eventually_async("a lock lingers", async || {
        drop(redlock.lock("warm-up").await.unwrap());
        !redlock.snapshot().lingering.is_empty()
    })
    .await;
}

async fn pair(servers: &[RedisServer]) -> (Redlock, Redlock) {
    let one = connected(lingering().owner("one"), urls(servers)).await;
    let other = connected(lingering().owner("other"), urls(servers)).await;
    ready(&one).await;
    (one, other)
}

#[tokio::test]
async fn hundred_locks_cost_one_acquire() {
    let servers = RedisServer::start_n(5);
    let (one, _other) = pair(&servers).await;
    drop(one.lock("x").await.unwrap());
    let before = settled_calls(&servers).await;
    for _ in 0..100 {
        drop(one.lock("x").await.unwrap());
    }
    assert_eq!(servers.iter().map(calls).sum::<u64>(), before, "no script was called");
}

#[tokio::test]
async fn waiter_elsewhere_ends_it() {
    let servers = RedisServer::start_n(5);
    let (one, other) = pair(&servers).await;
    let first = one.lock("x").await.unwrap().fencing_token();
    let lock = granted(wait_for(&other, "x")).await;
    assert!(lock.fencing_token() > first);
    assert!(!one.snapshot().lingering.iter().any(|kept| kept.names().any(|name| name == "x")));
}

#[tokio::test]
async fn single_attempt_gets_it_next_time() {
    let servers = RedisServer::start_n(5);
    let (one, other) = pair(&servers).await;
    drop(one.lock("x").await.unwrap());
    match other.lock("x").await {
        Err(LockError::Held { lingers, owner, .. }) => {
            assert!(lingers);
            assert_eq!(owner.as_deref(), Some("one"));
        }
        // The owner released the other nodes before they were reached.
        Ok(lock) => return drop(lock),
        Err(error) => panic!("{error}"),
    }
    eventually_async("the owner releases it", async || other.inspect("x").await.unwrap().is_none())
        .await;

    drop(other.lock("x").await.unwrap());
}

#[tokio::test]
async fn requested_lock_is_released_after_use() {
    let servers = RedisServer::start_n(3);
    let (one, other) = pair(&servers).await;
    let lock = one.lock("x").await.unwrap();
    let waiting = wait_for(&other, "x");

    eventually_async("the waiter was refused", async || {
        other.inspect("x").await.unwrap().is_some_and(|holder| holder.is_awaited)
    })
    .await;

    assert!(lock.is_valid() && !waiting.is_finished());

    drop(lock);
    drop(granted(waiting).await);
}

#[tokio::test]
async fn two_processes_share_a_name() {
    let servers = RedisServer::start_n(3);
    let (one, other) = pair(&servers).await;
    let turns = async |redlock: Redlock| {
        for _ in 0..50 {
            let lock = redlock.lock("x").wait(LINGER).into_future().await.unwrap();
            assert!(lock.is_valid());
        }
    };
    tokio::join!(turns(one.clone()), turns(other.clone()));
    one.shutdown().await;

    other.shutdown().await;

    for server in &servers {
        assert_eq!(server.cli(&["KEYS", "redlock:lock:*"]).items().len(), 0);
    }
}

#[tokio::test]
async fn restarted_server_reports_again() {
    let mut servers = RedisServer::start_n(3);
    let (one, other) = pair(&servers).await;
    for server in &mut servers[..2] {
        server.kill();
    }
    eventually_async("the subscriptions are lost", async || one.lock("x").await.is_err()).await;
    for server in &mut servers[..2] {
        server.restart();
    }
    other.ready().await.unwrap();
    one.ready().await.unwrap();
    ready(&one).await;
    drop(one.lock("x").await.unwrap());

    drop(granted(wait_for(&other, "x")).await);
}
