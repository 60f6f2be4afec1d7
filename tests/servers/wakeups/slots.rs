//! The release of any slot wakes one that waits in another process.

use std::future::IntoFuture;

use tokio::task::JoinHandle;
use tower_redlock::{Lock, LockError, Redlock};

use super::scene::{
    connected, granted, listeners, listening, patient, settled_calls, urls, woken_or_never,
};
use crate::support::{HANG_GUARD, RedisServer, eventually_async};

const SLOTS: u32 = 3;

async fn take(redlock: &Redlock) -> Lock {
    redlock.lock("x").slots(SLOTS).await.unwrap()
}

fn wait(redlock: &Redlock) -> JoinHandle<Result<Lock, LockError>> {
    tokio::spawn(redlock.lock("x").slots(SLOTS).wait(6 * HANG_GUARD).into_future())
}

async fn listening_to_all(servers: &[RedisServer], count: i64) {
    for slot in 0..SLOTS {
        listening(servers, &format!("slot:{slot}:x"), count).await;
    }
}

#[tokio::test]
async fn release_of_any_slot_wakes_without_polling() {
    for released in 0..SLOTS {
        let servers = RedisServer::start_n(3);
        let holder = connected(woken_or_never(), urls(&servers)).await;
        let waiter = connected(woken_or_never(), urls(&servers)).await;
        let mut held = vec![take(&holder).await, take(&holder).await, take(&holder).await];
        let waiting = wait(&waiter);
        listening_to_all(&servers, 1).await;
        let before = settled_calls(&servers).await;

        held.retain(|lock| lock.slot() != Some(released));

        let lock = granted(waiting).await;
        let after = settled_calls(&servers).await;
        assert_eq!(lock.slot(), Some(released));
        // On each server: the release, and one attempt; a second one with its release if the hint of
        // one server was faster than the release on another.
        assert!((6..=12).contains(&(after - before)), "{} calls", after - before);
    }
}

#[tokio::test]
async fn waiting_process_makes_no_calls() {
    let servers = RedisServer::start_n(3);
    let holder = connected(woken_or_never(), urls(&servers)).await;
    let waiter = connected(woken_or_never(), urls(&servers)).await;
    let _held = [take(&holder).await, take(&holder).await, take(&holder).await];

    let waiting: Vec<_> = (0..20).map(|_| wait(&waiter)).collect();
    listening_to_all(&servers, 1).await;

    // It never settles if one of them polls.
    let before = settled_calls(&servers).await;

    assert_eq!(settled_calls(&servers).await, before);
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
}

#[tokio::test]
async fn subscriptions_end_with_the_wait() {
    let servers = RedisServer::start_n(3);
    let holder = connected(patient(), urls(&servers)).await;
    let waiter = connected(patient(), urls(&servers)).await;
    let held = [take(&holder).await, take(&holder).await, take(&holder).await];
    let waiting = [wait(&waiter), wait(&waiter)];
    listening_to_all(&servers, 1).await;

    drop(held);

    for waiting in waiting {
        drop(granted(waiting).await);
    }
    listening_to_all(&servers, 0).await;
}

/// Each process has more tasks than there are slots.
#[tokio::test]
async fn crowd_of_processes_is_served() {
    const ROUNDS: usize = 10;
    let servers = RedisServer::start_n(3);
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let redlock = connected(woken_or_never(), urls(&servers)).await;
        for _ in 0..5 {
            let redlock = redlock.clone();
            tasks.push(tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let request = redlock.lock("x").slots(SLOTS).wait(6 * HANG_GUARD);
                    let lock = request.await.unwrap();
                    tokio::task::yield_now().await;
                    drop(lock);
                }
            }));
        }
    }

    for task in tasks {
        tokio::time::timeout(6 * HANG_GUARD, task).await.expect("served").unwrap();
    }

    eventually_async("no key and no listener is left", async || {
        let is_clean = |server: &RedisServer| {
            server.keys("redlock:lock:*").is_empty() && listeners(server, "slot:0:x") == 0
        };
        servers.iter().all(is_clean)
    })
    .await;
}
