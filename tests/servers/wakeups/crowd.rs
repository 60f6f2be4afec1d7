//! Many managers that wait for the same name.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::scene::{
    connected, granted, listening, patient, settled_calls, urls, wait_for, woken_or_never,
};
use crate::support::{HANG_GUARD, RedisServer};

/// Not 8: Valkey 9.1.2 answers PUBSUB NUMSUB with a wrong number for 8 subscribers.
const MANAGERS: usize = 9;

#[tokio::test]
async fn many_waiters_all_get_the_lock() {
    let servers = RedisServer::start_n(5);
    let holder = connected(patient(), urls(&servers)).await;
    let lock = holder.lock("x").await.unwrap();
    let mut managers = Vec::new();
    for _ in 0..MANAGERS {
        managers.push(connected(patient(), urls(&servers)).await);
    }
    let inside = Arc::new(AtomicBool::new(false));
    let waiting: Vec<_> = managers.iter().map(|manager| wait_for(manager, "x")).collect();
    listening(&servers, "x", i64::try_from(MANAGERS).unwrap()).await;
    let before = settled_calls(&servers).await;
    drop(lock);
    let served = waiting.into_iter().map(async |one| {
        let lock = granted(one).await;
        assert!(!inside.swap(true, Ordering::SeqCst), "two managers hold the lock");
        tokio::task::yield_now().await;
        inside.store(false, Ordering::SeqCst);
        drop(lock);
    });
    futures_util::future::join_all(served).await;
    let calls = settled_calls(&servers).await - before;

    // Each manager in turn: at most twice the requests of all managers to all nodes.
    let most = u64::try_from(MANAGERS * MANAGERS * servers.len() * 2).unwrap();

    assert!(calls <= most, "{calls} calls");
}

#[tokio::test]
async fn first_waiter_needs_one_release() {
    let servers = RedisServer::start_n(5);
    let holder = connected(woken_or_never(), urls(&servers)).await;
    let lock = holder.lock("x").await.unwrap();
    let mut waiting = Vec::new();
    let mut managers = Vec::new();
    for _ in 0..MANAGERS {
        let manager = connected(woken_or_never(), urls(&servers)).await;
        waiting.push(wait_for(&manager, "x"));
        managers.push(manager);
    }
    listening(&servers, "x", i64::try_from(MANAGERS).unwrap()).await;
    settled_calls(&servers).await;
    drop(lock);
    let winner = tokio::time::timeout(HANG_GUARD, futures_util::future::select_all(waiting)).await;

    drop(winner.expect("one request is granted").0.unwrap().unwrap());
}

#[tokio::test]
async fn no_waiter_starves() {
    let servers = RedisServer::start_n(5);
    let mut tasks = Vec::new();
    let over = Arc::new(AtomicBool::new(false));
    let turns: Arc<[AtomicUsize]> = (0..MANAGERS).map(|_| AtomicUsize::new(0)).collect();
    for me in 0..MANAGERS {
        let manager = connected(patient(), urls(&servers)).await;
        let (over, turns) = (Arc::clone(&over), Arc::clone(&turns));
        tasks.push(tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let lock = manager.lock("x").wait(6 * HANG_GUARD).await.unwrap();
                turns[me].fetch_add(1, Ordering::Relaxed);
                // The duration of the work.
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(lock);
                // The pause between two requests of a manager.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }));
    }
    // Until every manager has had several turns.
    crate::support::eventually_async("every manager has its turns", async || {
        turns.iter().all(|turns| turns.load(Ordering::Relaxed) >= 5)
    })
    .await;
    over.store(true, Ordering::Relaxed);

    for task in tasks {
        task.await.unwrap();
    }
}
