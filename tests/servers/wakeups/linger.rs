//! Idle locks that stay with their process, and are released when others request them.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{Redlock, RedlockBuilder};

use crate::fixture::{
    RedisServer, connected, eventually_async, over, patient, urls,
    waiting::{granted, wait_for},
};

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
    let one = connected(over(lingering().owner("one"), urls(servers))).await;
    let other = connected(over(lingering().owner("other"), urls(servers))).await;
    ready(&one).await;
    (one, other)
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
