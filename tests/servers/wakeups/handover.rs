//! A release wakes a waiter in another process.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::LockError;

use crate::fixture::{
    Fixture, RedisServer, eventually_async, patient,
    waiting::{Waiting, calls, granted, listening, settled_calls, wait_for, woken_or_never},
};

#[tokio::test]
async fn release_causes_exactly_one_try() {
    let waiting = Waiting::start(5, woken_or_never).await;
    let before = settled_calls(&waiting.servers).await;
    drop(waiting.lock);
    let lock = granted(waiting.request).await;
    let tries = settled_calls(&waiting.servers).await - before;
    // On each server: the release, and one attempt; a second one with its release if the hint of one
    // server was faster than the release on another.
    assert!((10..=20).contains(&tries), "{tries} calls");
    drop(lock);
}

#[tokio::test]
async fn of_a_set_each_name_wakes() {
    let fixture = Fixture::new(3);
    let holder = fixture.direct(woken_or_never()).await;
    let waiter = fixture.direct(woken_or_never()).await;
    let lock = holder.lock("b").await.unwrap();
    let request = waiter.lock(["a", "b"]).wait(Duration::from_secs(60));
    let waiting = tokio::spawn(request.into_future());
    listening(&fixture.servers, "a", 1).await;
    listening(&fixture.servers, "b", 1).await;
    settled_calls(&fixture.servers).await;

    drop(lock);

    drop(granted(waiting).await);
}

/// Numbers of connections of the servers, without those of this query.
fn connections(servers: &[RedisServer]) -> Vec<usize> {
    let count = |server: &RedisServer| server.cli(&["CLIENT", "LIST"]).text().lines().count() - 1;
    servers.iter().map(count).collect()
}

#[tokio::test]
async fn subscriptions_last_while_waiting() {
    let fixture = Fixture::new(3);
    let (holder, waiter) = (fixture.direct(patient()).await, fixture.direct(patient()).await);
    let counts = || connections(&fixture.servers);
    let lock = holder.lock("x").await.unwrap();
    assert!(matches!(waiter.lock("x").await, Err(LockError::Held { .. })));
    assert_eq!(counts(), [2; 3], "one connection for each manager");

    let waiting = [wait_for(&waiter, "x"), wait_for(&waiter, "x"), wait_for(&waiter, "x")];
    listening(&fixture.servers, "x", 1).await;
    assert_eq!(counts(), [3; 3], "one more for all waiters");
    let other = holder.lock("y").await.unwrap();
    let also = wait_for(&waiter, "y");
    listening(&fixture.servers, "y", 1).await;
    assert_eq!(counts(), [3; 3], "and for all names");

    drop((lock, other));
    for request in waiting.into_iter().chain([also]) {
        drop(granted(request).await);
    }
    eventually_async("the connections are closed", async || counts() == [2; 3]).await;
}

#[tokio::test]
async fn disabled_wakeups_open_no_connection() {
    let fixture = Fixture::new(3);
    let holder = fixture.direct(patient()).await;
    let waiter = fixture.direct(patient().wakeups(false)).await;
    let lock = holder.lock("x").await.unwrap();
    let waiting = wait_for(&waiter, "x");
    let sum = || fixture.servers.iter().map(calls).sum::<u64>();
    let before = sum();
    eventually_async("the waiter retries", async || sum() > before + 60).await;
    // A connection for wake-ups would last while it waits; one of this test ends a little later.
    eventually_async("each manager has one connection to each server", async || {
        connections(&fixture.servers) == [2; 3]
    })
    .await;

    drop(lock);
    drop(granted(waiting).await);
}
