//! The local queue of one process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use tower_redlock::{LockError, RedlockBuilder};

use crate::fixture::{Fixture, HANG_GUARD, LONG, Proxy, patient, poll_once};

use super::nodes::noted;

#[tokio::test]
async fn local_conflict_fails_without_asking() {
    let fixture = Fixture::new(3);
    let lender = fixture.direct(patient()).await;
    let (nodes, answers) = noted(&lender);
    let builder = nodes.into_iter().fold(patient().owner("ourselves"), RedlockBuilder::node);
    let redlock = builder.build().unwrap();
    let _lock = redlock.lock("x").await.unwrap();
    crate::fixture::eventually("all answers have arrived", || answers.lock().unwrap().len() == 3);
    let result = poll_once(&mut redlock.lock("x").into_future());
    let Poll::Ready(Err(LockError::Held { owner, expires_in: Some(_), .. })) = result else {
        panic!("{result:?}")
    };
    assert_eq!(owner.as_deref(), Some("ourselves"));
    assert_eq!(answers.lock().unwrap().len(), 3);
}

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
