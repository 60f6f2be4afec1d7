//! A release wakes a waiter in another process.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::LockError;

use super::scene::{
    calls, connected, connections, granted, listening, patient, settled_calls, urls, wait_for,
    woken_or_never,
};
use crate::support::{RedisServer, eventually_async};

#[tokio::test]
async fn release_causes_exactly_one_try() {
    let servers = RedisServer::start_n(5);
    let holder = connected(woken_or_never(), urls(&servers)).await;
    let waiter = connected(woken_or_never(), urls(&servers)).await;
    let lock = holder.lock("x").await.unwrap();
    let waiting = wait_for(&waiter, "x");
    listening(&servers, "x", 1).await;
    // The refused attempt, and another one after the subscriptions were active.
    let before = settled_calls(&servers).await;
    drop(lock);
    let lock = granted(waiting).await;
    let after = settled_calls(&servers).await;

    // On each server: the release, and one attempt; a second one with its release if the hint of one
    // server was faster than the release on another.
    let [least, most] = [10, 20];

    assert!((least..=most).contains(&(after - before)), "{} calls", after - before);

    drop(lock);
}

#[tokio::test]
async fn of_a_set_each_name_wakes() {
    let servers = RedisServer::start_n(3);
    let holder = connected(woken_or_never(), urls(&servers)).await;
    let waiter = connected(woken_or_never(), urls(&servers)).await;
    let lock = holder.lock("b").await.unwrap();
    let waiting = {
        let request = waiter.lock(["a", "b"]).wait(Duration::from_secs(60));
        tokio::spawn(request.into_future())
    };
    listening(&servers, "a", 1).await;
    listening(&servers, "b", 1).await;
    settled_calls(&servers).await;
    drop(lock);

    drop(granted(waiting).await);
}

#[tokio::test]
async fn subscriptions_last_while_waiting() {
    let servers = RedisServer::start_n(3);
    let holder = connected(patient(), urls(&servers)).await;
    let waiter = connected(patient(), urls(&servers)).await;
    let counts = || servers.iter().map(connections).collect::<Vec<_>>();

    let lock = holder.lock("x").await.unwrap();

    assert!(matches!(waiter.lock("x").await, Err(LockError::Held { .. })));
    assert_eq!(counts(), [2; 3], "one connection for each manager");

    let waiting = [wait_for(&waiter, "x"), wait_for(&waiter, "x"), wait_for(&waiter, "x")];
    listening(&servers, "x", 1).await;
    assert_eq!(counts(), [3; 3], "one more for all waiters");

    let other = holder.lock("y").await.unwrap();
    let also = wait_for(&waiter, "y");
    listening(&servers, "y", 1).await;
    assert_eq!(counts(), [3; 3], "and for all names");

    drop((lock, other));
    for one in waiting {
        drop(granted(one).await);
    }
    drop(granted(also).await);
    eventually_async("the connections are closed", async || counts() == [2; 3]).await;
}

#[tokio::test]
async fn disabled_wakeups_open_no_connection() {
    let servers = RedisServer::start_n(3);
    let holder = connected(patient(), urls(&servers)).await;
    let waiter = connected(patient().wakeups(false), urls(&servers)).await;
    let lock = holder.lock("x").await.unwrap();
    let waiting = wait_for(&waiter, "x");
    let before: u64 = servers.iter().map(calls).sum();

    eventually_async("the waiter retries", async || {
        servers.iter().map(calls).sum::<u64>() > before + 60
    })
    .await;

    assert_eq!(servers.iter().map(connections).collect::<Vec<_>>(), [2; 3]);

    drop(lock);
    drop(granted(waiting).await);
}
