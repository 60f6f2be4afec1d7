//! Many managers that wait for the same name, and one among managers that acquire it in a loop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tower_redlock::{LockError, Redlock};

use crate::fixture::{
    Fixture, HANG_GUARD, eventually_async, patient,
    waiting::{granted, listening, settled_calls, wait_for},
};

/// Not 8: Valkey 9.1.2 answers PUBSUB NUMSUB with a wrong number for 8 subscribers.
const MANAGERS: usize = 9;

#[tokio::test]
async fn many_waiters_all_get_the_lock() {
    let fixture = Fixture::new(5);
    let holder = fixture.direct(patient()).await;
    let lock = holder.lock("x").await.unwrap();
    let mut managers = Vec::new();
    for _ in 0..MANAGERS {
        managers.push(fixture.direct(patient()).await);
    }
    let inside = AtomicBool::new(false);
    let waiting: Vec<_> = managers.iter().map(|manager| wait_for(manager, "x")).collect();
    listening(&fixture.servers, "x", i64::try_from(MANAGERS).unwrap()).await;
    let before = settled_calls(&fixture.servers).await;
    drop(lock);
    let served = waiting.into_iter().map(async |request| {
        let lock = granted(request).await;
        assert!(!inside.swap(true, Ordering::SeqCst), "two managers hold the lock");
        tokio::task::yield_now().await;
        inside.store(false, Ordering::SeqCst);
        drop(lock);
    });
    futures_util::future::join_all(served).await;
    let calls = settled_calls(&fixture.servers).await - before;
    // Each manager in turn: at most twice the requests of all managers to all nodes.
    let most = u64::try_from(MANAGERS * MANAGERS * fixture.servers.len() * 2).unwrap();
    assert!(calls <= most, "{calls} calls");
}

/// Number of turns that the occasional manager has to get.
const TURNS: usize = 5;

/// The grants to the greedy managers.
#[derive(Default)]
struct Grants {
    /// Since the last one of the occasional manager.
    since: AtomicUsize,
    most: AtomicUsize,
    over: AtomicBool,
}

/// Acquires the name again immediately, each time.
async fn greedy(redlock: Redlock, grants: Arc<Grants>, hold: Duration) {
    while !grants.over.load(Ordering::Relaxed) {
        match redlock.lock("x").wait(6 * HANG_GUARD).await {
            Ok(lock) => {
                let since = grants.since.fetch_add(1, Ordering::Relaxed) + 1;
                grants.most.fetch_max(since, Ordering::Relaxed);
                if !hold.is_zero() {
                    // The duration of the work.
                    tokio::time::sleep(hold).await;
                }
                drop(lock);
            }
            Err(LockError::Held { .. } | LockError::NoQuorum { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
}

/// The longest streak of grants that a manager waited for, whose network delays each reply.
async fn longest_streak(managers: usize, tasks: usize, hold: Duration, delay: Duration) -> usize {
    let fixture = Fixture::new(5);
    fixture.proxies.iter().for_each(|proxy| proxy.set_delay(delay));
    let modest = fixture.proxied(patient()).await;
    let grants = Arc::<Grants>::default();
    let mut running = Vec::new();
    for _ in 0..managers {
        let manager = fixture.direct(patient()).await;
        let task = || tokio::spawn(greedy(manager.clone(), Arc::clone(&grants), hold));
        running.extend((0..tasks).map(|_| task()));
    }
    eventually_async("the name is held", async || grants.since.load(Ordering::Relaxed) > 3).await;
    grants.most.store(0, Ordering::Relaxed);
    for _ in 0..TURNS {
        grants.since.store(0, Ordering::Relaxed);
        let turn = modest.lock("x").wait(6 * HANG_GUARD).await;
        drop(turn.expect("the occasional manager gets its turn"));
    }
    grants.over.store(true, Ordering::Relaxed);
    for task in running {
        task.await.unwrap();
    }
    grants.most.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn occasional_waiter_competes_with_greedy_ones() {
    let most = longest_streak(3, 4, Duration::ZERO, Duration::ZERO).await;
    assert!(most < 5_000, "{most} grants in a row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distant_waiter_has_turns_too() {
    for delay in [10, 60].map(Duration::from_millis) {
        let most = longest_streak(1, 8, Duration::from_millis(20), delay).await;
        assert!(most < 100, "{delay:?}: {most} grants in a row");
    }
}
