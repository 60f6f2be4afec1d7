//! The release of any slot wakes one that waits in another process.

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio::task::JoinHandle;
use tower_redlock::{Lock, LockError, Redlock};

use crate::fixture::{
    Fixture, HANG_GUARD, RedisServer, eventually_async,
    waiting::{granted, listeners, listening, settled_calls, woken_or_never},
};

const SLOTS: u32 = 3;

async fn take_all(redlock: &Redlock) -> Vec<Lock> {
    let mut held = Vec::new();
    for _ in 0..SLOTS {
        held.push(redlock.lock("x").slots(SLOTS).await.unwrap());
    }
    held
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
    let fixture = Fixture::new(3);
    let servers = &fixture.servers;
    for released in 0..SLOTS {
        let holder = fixture.direct(woken_or_never()).await;
        let waiter = fixture.direct(woken_or_never()).await;
        let mut held = take_all(&holder).await;
        let waiting = wait(&waiter);
        listening_to_all(servers, 1).await;
        let before = settled_calls(servers).await;
        held.retain(|lock| lock.slot() != Some(released));
        let lock = granted(waiting).await;
        let tries = settled_calls(servers).await - before;
        assert_eq!(lock.slot(), Some(released));
        // On each server: the release, and one attempt; up to two more, each with its release, if the
        // hints of servers were faster than the release on others.
        assert!((6..=18).contains(&tries), "{tries} calls");
        listening_to_all(servers, 0).await;
        drop((held, lock));
        fixture.all_keys_gone().await;
    }
}

#[tokio::test]
async fn waiting_process_makes_no_calls() {
    let fixture = Fixture::new(3);
    let holder = fixture.direct(woken_or_never()).await;
    let waiter = fixture.direct(woken_or_never()).await;
    let _held = take_all(&holder).await;
    let waiting: Vec<_> = (0..20).map(|_| wait(&waiter)).collect();
    listening_to_all(&fixture.servers, 1).await;
    // It never settles if one of them polls.
    let before = settled_calls(&fixture.servers).await;
    assert_eq!(settled_calls(&fixture.servers).await, before);
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
}

/// Each process has more tasks than there are slots.
#[tokio::test]
async fn crowd_of_processes_is_served() {
    const ROUNDS: usize = 10;
    let fixture = Fixture::new(3);
    let holders = Arc::<AtomicU32>::default();
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let redlock = fixture.direct(woken_or_never()).await;
        for _ in 0..5 {
            let (redlock, holders) = (redlock.clone(), Arc::clone(&holders));
            tasks.push(tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let request = redlock.lock("x").slots(SLOTS).wait(6 * HANG_GUARD);
                    let lock = request.await.unwrap();
                    assert!(holders.fetch_add(1, Ordering::SeqCst) < SLOTS, "one too many");
                    tokio::task::yield_now().await;
                    holders.fetch_sub(1, Ordering::SeqCst);
                    drop(lock);
                }
            }));
        }
    }
    for task in tasks {
        tokio::time::timeout(6 * HANG_GUARD, task).await.expect("every task is served").unwrap();
    }
    fixture.all_keys_gone().await;
    eventually_async("no listener is left", async || {
        fixture.servers.iter().all(|server| listeners(server, "slot:0:x") == 0)
    })
    .await;
}
