//! Managers that acquire a name in a loop, and one that acquires it occasionally.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tower_redlock::{LockError, LockRequest, Redlock};

use super::scene::{connected, patient, urls};
use crate::support::{HANG_GUARD, Proxy, ServerScene, eventually_async};

/// Number of turns that the occasional manager has to get.
const TURNS: usize = 5;
/// Maximum number of grants in a row that the others get meanwhile.
const OTHERS: usize = 5_000;

/// No hold time, and no network delay.
const SHORT: (Duration, Duration) = (Duration::ZERO, Duration::ZERO);

#[derive(Default)]
struct Counts {
    /// Grants to the greedy managers since the last one of the occasional manager.
    since: AtomicUsize,
    most: AtomicUsize,
    over: AtomicBool,
}

/// Acquires the name again immediately, each time.
async fn greedy(
    redlock: Redlock,
    counts: Arc<Counts>,
    ask: fn(LockRequest) -> LockRequest,
    hold: Duration,
) {
    while !counts.over.load(Ordering::Relaxed) {
        match ask(redlock.lock("x")).await {
            Ok(lock) => {
                let since = counts.since.fetch_add(1, Ordering::Relaxed) + 1;
                counts.most.fetch_max(since, Ordering::Relaxed);
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

/// The longest streak of grants that a manager waited for.
async fn longest_row(
    (managers, tasks): (usize, usize),
    ask: fn(LockRequest) -> LockRequest,
    (hold, way): (Duration, Duration),
) -> usize {
    let ServerScene { servers, proxies } = ServerScene::new(5);
    for proxy in &proxies {
        proxy.set_delay(way);
    }
    let modest = connected(patient(), proxies.iter().map(Proxy::url)).await;
    let counts = Arc::<Counts>::default();
    let mut running = Vec::new();
    for _ in 0..managers {
        let manager = connected(patient(), urls(&servers)).await;
        let one = || tokio::spawn(greedy(manager.clone(), Arc::clone(&counts), ask, hold));
        running.extend((0..tasks).map(|_| one()));
    }
    eventually_async("the name is held", async || counts.since.load(Ordering::Relaxed) > 3).await;
    counts.most.store(0, Ordering::Relaxed);
    for _ in 0..TURNS {
        counts.since.store(0, Ordering::Relaxed);
        drop(
            modest
                .lock("x")
                .wait(6 * HANG_GUARD)
                .await
                .expect("the occasional manager gets its turn"),
        );
    }
    counts.over.store(true, Ordering::Relaxed);
    for one in running {
        one.await.unwrap();
    }
    counts.most.load(Ordering::Relaxed)
}

fn waits(request: LockRequest) -> LockRequest {
    request.wait(6 * HANG_GUARD)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn occasional_waiter_beats_greedy_tasks() {
    let most = longest_row((1, 8), waits, SHORT).await;
    assert!(most < OTHERS, "{most} grants in a row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn occasional_waiter_beats_greedy_task() {
    let most = longest_row((1, 1), waits, SHORT).await;
    assert!(most < OTHERS, "{most} grants in a row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn occasional_waiter_competes_with_greedy_ones() {
    let most = longest_row((3, 4), waits, SHORT).await;
    assert!(most < OTHERS, "{most} grants in a row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_competes_with_immediate_attempts() {
    let most = longest_row((1, 1), |request| request, SHORT).await;
    assert!(most < OTHERS, "{most} grants in a row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distant_waiter_has_turns_too() {
    let ms = Duration::from_millis;
    for way in [10, 60] {
        let most = longest_row((1, 8), waits, (ms(20), ms(way))).await;
        assert!(most < 100, "{way} ms: {most} grants in a row");
    }
}
