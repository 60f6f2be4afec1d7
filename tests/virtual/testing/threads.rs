//! Several threads, and managers with threads of their own.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tower_redlock::{
    LockError, Redlock,
    error::LossCause,
    node::EmbeddedNodes,
    testing::{ManualClock, Nodes},
    time::Clock,
};

use crate::durations::SECOND;

/// Nothing here takes real time; this is where a test hangs.
const HANG_GUARD: Duration = Duration::from_secs(10);
const ROUNDS: usize = 100;

#[test]
fn threads_move_clock_in_turn() {
    for _ in 0..ROUNDS {
        let clock = ManualClock::new();
        let start = clock.now();
        let inside = Arc::new(AtomicUsize::new(0));
        let mut tasks: Vec<_> = (1..=40)
            .map(|second| {
                let (sleep, inside) = (clock.sleep(second * SECOND), Arc::clone(&inside));
                clock.spawn(async move {
                    sleep.await;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two threads run tasks");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    (0..10).for_each(|_| clock.advance(SECOND));
                });
            }
        });
        assert_eq!(clock.now(), start + 40 * SECOND, "no move is lost");
        assert!(tasks.iter_mut().all(|task| task.take().is_some()));
    }
}

/// Reading the time and registering the wait are one step; otherwise a wait would sometimes be
/// missed.
#[test]
fn wait_begun_during_move_ends() {
    for _ in 0..ROUNDS {
        let clock = ManualClock::new();
        let until = clock.now() + SECOND;
        let barrier = Arc::new(Barrier::new(2));
        let (send, done) = mpsc::channel();
        let (of_waiter, waiter) = (clock.clone(), Arc::clone(&barrier));
        let handle = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            waiter.wait();
            runtime.block_on(of_waiter.wait(until));
            send.send(of_waiter.now()).unwrap();
        });
        barrier.wait();
        clock.advance(SECOND);
        assert_eq!(done.recv_timeout(HANG_GUARD), Ok(until));
        handle.join().unwrap();
    }
}

/// Everything that is due was woken when `advance` returns, so no polling is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_wakes_managers_thread() {
    for _ in 0..ROUNDS {
        let clock = ManualClock::new();
        let nodes = EmbeddedNodes::with_clock(3, clock.clone());
        let builder = Redlock::builder().clock(clock.clone()).nodes_from(&nodes);
        let redlock = builder.build().unwrap();
        let sleep = clock.sleep(Duration::MAX);
        let (begun, begins) = tokio::sync::oneshot::channel();
        let work = redlock.lock("x").auto_extend(false).run(|_| async {
            begun.send(()).unwrap();
            sleep.await;
        });
        let run = tokio::spawn(work);
        begins.await.unwrap();
        clock.advance(10 * SECOND);
        let ended = tokio::time::timeout(HANG_GUARD, run)
            .await
            .expect("the waiter is granted the slot")
            .unwrap();
        let Err(LockError::Lost { cause: LossCause::Expired { .. } }) = ended else { panic!() };
        assert_eq!(nodes.key_counts(), [0; 3]);
    }
}

/// The same on the clock's own tasks, while work runs on a runtime with threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_tasks_wake_runtime_work() {
    for _ in 0..ROUNDS {
        let clock = ManualClock::new();
        let nodes = Nodes::new(3, &clock);
        let redlock = nodes.replica("blue").redlock();
        let lock = redlock.lock("x").await.unwrap();
        let lost = tokio::spawn(lock.lost());
        clock.advance(60 * SECOND);
        assert!(lock.is_valid() && !lost.is_finished());
        nodes.stop(0..3);
        clock.advance(10 * SECOND);
        let cause = tokio::time::timeout(HANG_GUARD, lost)
            .await
            .expect("the waiter is granted the slot")
            .unwrap();
        assert!(matches!(cause, LossCause::Expired { .. }), "{cause:?}");
    }
}

/// Operations of several threads, with freezing and thawing in between: none is lost, and releases
/// take effect.
#[test]
fn freezing_under_load_leaves_no_key() {
    for _ in 0..ROUNDS {
        let clock = ManualClock::new();
        let nodes = Nodes::new(5, &clock);
        let redlock = nodes.replica("blue").redlock();
        thread::scope(|scope| {
            for worker in 0..2 {
                let redlock = &redlock;
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    for turn in 0..20 {
                        let name = format!("{worker}:{turn}");
                        drop(runtime.block_on(async { redlock.lock(name).await.unwrap() }));
                    }
                });
            }
            for node in (0..5).cycle().take(50) {
                nodes.freeze([node]);
                thread::yield_now();
                nodes.thaw([node]);
            }
        });
        clock.settle();
        assert_eq!(nodes.key_counts(), [0; 5]);
        assert!(redlock.health().iter().all(|health| health.in_flight == 0));
    }
}
