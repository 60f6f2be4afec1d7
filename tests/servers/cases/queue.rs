//! The local queue of one process.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use tower_redlock::{LockError, RedlockBuilder};

use super::{
    nodes::noted,
    scene::{LONG, Scene, key, patient, poll_once},
};
use crate::support::{HANG_GUARD, Proxy};

#[tokio::test]
async fn waiters_are_served_in_order() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    let order = Arc::<Mutex<Vec<usize>>>::default();

    let mut waiting: Vec<_> = (0..20)
        .map(|i| {
            let order = Arc::clone(&order);
            Box::pin(redlock.lock("x").wait(HANG_GUARD).run(move |_| async move {
                order.lock().unwrap().push(i);
            }))
        })
        .collect();

    assert!(waiting.iter_mut().all(|waiter| poll_once(waiter).is_pending()));

    let tasks: Vec<_> = waiting.into_iter().rev().map(tokio::spawn).collect();
    drop(lock);
    for task in tasks {
        task.await.unwrap().unwrap();
    }

    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn waiter_timeout_names_own_process() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient().owner("ourselves")).await;
    let _lock = redlock.lock("x").await.unwrap();
    let wait = Duration::from_millis(100);
    let started = Instant::now();
    let result = redlock.lock("x").wait(wait).await;

    let elapsed = started.elapsed();

    let Err(LockError::WaitTimedOut { waited, last }) = result else { panic!("{result:?}") };
    assert!(wait <= waited && waited <= elapsed && elapsed < HANG_GUARD);
    let LockError::Held { owner, expires_in: Some(after), .. } = *last else { panic!("{last:?}") };
    assert_eq!(owner.as_deref(), Some("ourselves"));
    assert!(after > Duration::ZERO && after <= LONG + Duration::from_secs(5));
}

#[tokio::test]
async fn local_conflict_fails_without_asking() {
    let scene = Scene::new(3);
    let lender = scene.direct(patient()).await;
    let (nodes, answers) = noted(&lender);
    let builder = nodes.into_iter().fold(patient().owner("ourselves"), RedlockBuilder::node);
    let redlock = builder.build().unwrap();
    let _lock = redlock.lock("x").await.unwrap();
    crate::support::eventually("all answers have arrived", || answers.lock().unwrap().len() == 3);

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
    let scene = Scene::new(3);
    let redlocks = [scene.direct(patient()).await, scene.direct(patient()).await];
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

    scene.all_keys_gone().await;
}

#[tokio::test]
async fn single_attempt_ignores_unpolled_head() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(patient()).await;
    // As in a `select!` whose other branch wants the same name while this one is not polled.
    let mut head = redlock.lock("x").into_future();

    scene.proxies.iter().for_each(Proxy::stall);

    assert!(poll_once(&mut head).is_pending());

    scene.proxies.iter().for_each(Proxy::resume);
    scene.keys_everywhere().await;
    let attempt = tokio::time::timeout(HANG_GUARD, redlock.lock("x")).await;
    let result = attempt.expect("a single attempt ends without a wait");

    assert!(matches!(result, Err(LockError::Held { .. })), "{result:?}");

    drop(head);
}

#[tokio::test]
async fn max_attempts_return_the_last_error() {
    let scene = Scene::new(3);
    let lender = scene.direct(patient()).await;
    let (nodes, answers) = noted(&lender);
    let builder = patient().retry_delay(Duration::ZERO..=Duration::from_millis(2));
    let redlock = nodes.into_iter().fold(builder, RedlockBuilder::node).build().unwrap();
    scene.servers.iter().for_each(|server| server.set(&key("x"), "foreign"));

    let result = redlock.lock("x").wait(LONG).max_attempts(4).await;

    assert!(
        matches!(result, Err(LockError::Held { expires_in: None, owner: None, .. })),
        "{result:?}"
    );

    crate::support::eventually("all answers have arrived", || answers.lock().unwrap().len() >= 12);
    assert_eq!(answers.lock().unwrap().len(), 4 * 3);
}
