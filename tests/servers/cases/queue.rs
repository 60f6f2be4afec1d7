//! The local queue of one process.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tower_redlock::LockError;

use crate::fixture::{Fixture, HANG_GUARD, LONG, Proxy, patient, poll_once};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_sets_exclude_without_deadlock() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let fixture = Fixture::new(3);
    let redlocks = [fixture.direct(patient()).await, fixture.direct(patient()).await];
    let taken = Arc::new(NAMES.map(|_| AtomicBool::new(false)));
    let sets = [[0, 1], [1, 2], [2, 3], [3, 0], [2, 0], [3, 1]];
    let tasks = redlocks.iter().flat_map(|redlock| sets.map(|set| (redlock.clone(), set)));
    let tasks: Vec<_> = tasks
        .map(|(redlock, set)| {
            let taken = Arc::clone(&taken);
            tokio::spawn(async move {
                for _ in 0..10 {
                    let request = redlock.lock(set.map(|i| NAMES[i])).wait(LONG);
                    let work = async |_| {
                        let free = set.map(|i| !taken[i].swap(true, Ordering::SeqCst));
                        tokio::task::yield_now().await;
                        for i in set {
                            taken[i].store(false, Ordering::SeqCst);
                        }
                        assert_eq!(free, [true; 2], "{set:?}");
                    };
                    request.run(work).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(LONG, task).await.expect("no deadlock").unwrap();
    }
    fixture.all_keys_gone().await;
}

#[tokio::test]
async fn single_attempt_ignores_unpolled_head() {
    let (fixture, redlock) = Fixture::patient_proxied().await;
    // As in a `select!` whose other branch wants the same name while this one is not polled.
    let mut head = redlock.lock("x").into_future();
    fixture.proxies.iter().for_each(Proxy::stall);
    assert!(poll_once(&mut head).is_pending());
    fixture.proxies.iter().for_each(Proxy::resume);
    fixture.keys_everywhere().await;
    let attempt = tokio::time::timeout(HANG_GUARD, redlock.lock("x")).await;
    let result = attempt.expect("a single attempt ends without a wait");
    assert!(matches!(result, Err(LockError::Held { .. })), "{result:?}");
    drop(head);
}
