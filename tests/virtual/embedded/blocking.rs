//! Locks that threads without a runtime take.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tower_redlock::{
    LockError, Redlock,
    blocking::Blocking,
    error::LossCause,
    layer::GuardError,
    lock::LockEventKind,
    testing::{ManualClock, Nodes},
};

use crate::support::{HANG_GUARD, eventually};

fn embedded() -> Blocking {
    let redlock = Redlock::embedded().blocking();
    redlock.ready().unwrap();
    redlock
}

/// A lock that ends by itself, as it is not renewed.
const SHORT: Duration = Duration::from_millis(200);

#[test]
fn work_runs_under_the_lock() {
    let redlock = embedded();

    let (token, refused) = redlock
        .lock("x")
        .run(|cx| {
            cx.ensure_valid().unwrap();
            (cx.fencing_token(), redlock.lock("x").acquire().unwrap_err())
        })
        .unwrap();

    assert!(matches!(refused, LockError::Held { .. }), "{refused}");
    let lock = redlock.lock("x").acquire().unwrap();
    assert!(lock.fencing_token() > token && lock.is_valid() && !lock.is_stopping());
    assert_eq!(redlock.inspect("x").unwrap().unwrap().token, lock.fencing_token());
}

#[test]
fn threads_exclude_each_other() {
    const THREADS: u32 = 4;
    const RUNS: u32 = 50;
    let redlock = embedded();
    let (is_inside, runs) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..RUNS {
                    let request = redlock.lock("x").wait(HANG_GUARD);
                    let work = |_| {
                        assert!(!is_inside.swap(true, Ordering::SeqCst), "two holders");
                        thread::yield_now();
                        is_inside.store(false, Ordering::SeqCst);
                        runs.fetch_add(1, Ordering::SeqCst)
                    };
                    request.run(work).unwrap();
                }
            });
        }
    });
    assert_eq!(runs.into_inner(), THREADS * RUNS);
}

#[test]
fn panic_of_the_work_releases() {
    let redlock = embedded();
    let request = redlock.lock("x");
    let ended = catch_unwind(AssertUnwindSafe(|| request.run(|_| panic!("of the work"))));
    assert!(ended.is_err());
    redlock.lock("x").run(|_| ()).unwrap();
}

#[test]
fn lock_by_hand_is_extended_shared_and_released() {
    let redlock = embedded();
    let lock = redlock.lock("x").auto_extend(true).acquire().unwrap();
    assert!(lock.extend().unwrap() > Duration::ZERO);
    let shared = lock.downgrade().unwrap();
    let beside = redlock.lock("x").shared().acquire().unwrap();
    assert!(shared.is_shared() && beside.is_valid());
    shared.release().unwrap();
    beside.release().unwrap();
    let slot = redlock.lock("x").slots(2).acquire().unwrap();
    assert!(slot.slot().is_some_and(|number| number < 2));
}

#[test]
fn lost_lock_is_an_error_of_the_work() {
    let redlock = embedded();
    let until_lost = |cx: tower_redlock::LockContext| {
        eventually("the lock is lost", || !cx.is_valid());
        assert!(cx.is_stopping() && cx.remaining().is_zero());
        cx.ensure_valid()
    };
    let ran = redlock.lock("x").ttl(SHORT).auto_extend(false).run(until_lost);
    let tried = redlock.lock("y").ttl(SHORT).auto_extend(false).try_run(until_lost);
    let failed = redlock.lock("z").try_run(|_| Err::<(), _>("of the work"));
    let Err(LockError::Lost { cause: LossCause::Expired { .. } }) = ran else { panic!("{ran:?}") };
    assert!(matches!(tried, Err(GuardError::Lock(LockError::Lost { .. }))), "{tried:?}");
    assert_eq!(failed, Err(GuardError::Work("of the work")));
    let lock = redlock.lock("x").ttl(SHORT).auto_extend(false).acquire().unwrap();
    eventually("the lock is lost", || lock.ensure_valid().is_err());
    assert!(matches!(lock.extend(), Err(LockError::Lost { .. })));
}

#[test]
fn work_past_the_end_is_reported() {
    let redlock = embedded();
    let mut events = redlock.redlock().events();

    let ended = redlock.lock("x").ttl(SHORT).auto_extend(false).run(|_| {
        let mut is_reported = || {
            let event = events.try_recv();
            event.is_ok_and(|event| matches!(event.kind, LockEventKind::Overrun { .. }))
        };
        eventually("an overrun is reported", &mut is_reported);
    });

    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
}

/// The work moves a manual clock, on which nothing is late.
#[test]
fn flags_come_with_the_margin_and_the_end() {
    const NANOSECOND: Duration = Duration::from_nanos(1);
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let redlock = nodes.replica("blue").redlock().blocking();
    let ended = redlock.lock("x").run(|cx| {
        nodes.stop([0, 1]);
        let margin = cx.remaining() / 10;
        clock.advance(cx.remaining().saturating_sub(margin + NANOSECOND));
        assert!(!cx.is_stopping());
        clock.advance(NANOSECOND);
        assert!(cx.is_stopping() && cx.is_valid());
        clock.advance(margin.saturating_sub(NANOSECOND));
        cx.ensure_valid().unwrap();
        clock.advance(NANOSECOND);
        assert!(!cx.is_valid());
    });
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
}

#[test]
fn closed_manager_refuses() {
    let redlock = embedded();
    let lock = redlock.lock("x").acquire().unwrap();
    drop(lock);
    redlock.shutdown();
    assert_eq!(redlock.lock("x").run(|_| ()), Err(LockError::Closed));
}

mod runtimes {
    use super::*;

    /// Panics unless `call` panics as tokio's own blocking methods do.
    fn is_refused<T>(call: impl FnOnce() -> T) {
        let panic = catch_unwind(AssertUnwindSafe(call)).err().expect("the call panics");
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).expect("the panic has a text");
        assert!(text.contains("Cannot block the current thread from within a runtime"), "{text}");
    }

    fn assert_all_refused(redlock: &Redlock) {
        let blocking = redlock.blocking();
        is_refused(|| blocking.ready());
        is_refused(|| blocking.lock("x").acquire());
        is_refused(|| blocking.lock("x").run(|_| panic!("it runs")));
        is_refused(|| blocking.lock("x").try_run::<(), ()>(|_| panic!("it runs")));
        is_refused(|| blocking.inspect("x"));
        is_refused(|| blocking.revoke("x"));
        is_refused(|| blocking.shutdown());
    }

    #[tokio::test]
    async fn async_context_is_refused() {
        let redlock = Redlock::embedded();
        redlock.ready().await.unwrap();
        assert_all_refused(&redlock);
        redlock
            .lock("x")
            .run(async |_| ())
            .await
            .expect("the manager is open and the lock is free");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn spawned_task_is_refused() {
        let redlock = Redlock::embedded();
        tokio::spawn(async move { assert_all_refused(&redlock) }).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn lock_released_in_an_async_context_is_free() {
        let redlock = Redlock::embedded();
        let blocking = redlock.blocking();
        let acquiring = tokio::task::spawn_blocking(move || blocking.lock("x").acquire());
        let lock = acquiring.await.unwrap().unwrap();
        is_refused(|| lock.release());
        redlock.lock("x").wait(HANG_GUARD).run(async |_| ()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn blocking_sections_may_block() {
        let redlock = Redlock::embedded().blocking();
        tokio::task::block_in_place(|| redlock.lock("x").run(|_| ())).unwrap();
        let spawned = tokio::task::spawn_blocking(move || redlock.lock("x").run(|_| ()));
        spawned.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn blocking_task_may_block_while_time_is_paused() {
        let redlock = Redlock::embedded().blocking();
        let spawned = tokio::task::spawn_blocking(move || {
            let _lock = redlock.lock("x").acquire().unwrap();
            redlock.lock("x").wait(SHORT).acquire()
        });
        assert!(matches!(spawned.await.unwrap(), Err(LockError::WaitTimedOut { .. })));
    }

    /// The runtime is idle while the thread blocks.
    #[test]
    fn entered_runtime_may_block() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        Redlock::embedded().blocking().lock("x").run(|_| ()).unwrap();
    }
    /// Calls on threads of their own while the only thread of the manager's runtime does not drive it.
    mod undriven {
        use tokio::runtime::{Builder, Runtime};
        use tower_redlock::{RedlockBuilder, lock::RuntimeSpawner, node::EmbeddedNodes};

        use super::*;

        fn manager(builder: RedlockBuilder) -> (Runtime, Blocking) {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let spawner = RuntimeSpawner::from(runtime.handle().clone());
            let redlock = builder.spawner(spawner).build().unwrap();
            (runtime, redlock.blocking())
        }

        /// A builder of managers whose shutdown waits for a second at most.
        fn briefly() -> RedlockBuilder {
            let second = Duration::from_secs(1);
            Redlock::builder().ttl(second).max_ttl(second)
        }

        /// Returns the result of a call that ends by itself.
        fn ended<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
            let (sender, receiver) = mpsc::channel();
            thread::spawn(move || sender.send(call()));
            receiver.recv_timeout(HANG_GUARD).expect("the call ends in time")
        }

        #[test]
        fn wait_ends_in_line_and_at_its_head() {
            let nodes = EmbeddedNodes::new(3);
            let (_runtime, redlock) = manager(Redlock::builder().nodes_from(&nodes));
            let elsewhere = Redlock::builder().nodes_from(&nodes).build().unwrap().blocking();
            let _here = redlock.lock("here").acquire().unwrap();
            let _there = elsewhere.lock("there").acquire().unwrap();

            let _slot = redlock.lock("slot").slots(1).acquire().unwrap();
            let request = |name: &str| redlock.lock(name).wait(SHORT);

            for request in [request("here"), request("there"), request("slot").slots(1)] {
                let refused = ended(move || request.acquire());
                let Err(LockError::WaitTimedOut { waited, .. }) = refused else {
                    panic!("{refused:?}")
                };
                assert!(waited >= SHORT, "{waited:?}");
            }
        }

        #[test]
        fn waiting_thread_is_granted_what_is_released() {
            let nodes = EmbeddedNodes::new(3);
            let (_runtime, redlock) = manager(Redlock::builder().nodes_from(&nodes));
            let elsewhere = Redlock::builder().nodes_from(&nodes).build().unwrap().blocking();
            let held = elsewhere.lock("x").acquire().unwrap();
            // The end of the wait is not what makes it try.
            let waiting = redlock.lock("x").wait(10 * HANG_GUARD);
            let (sender, receiver) = mpsc::channel();
            thread::spawn(move || sender.send(waiting.acquire().map(|_| ())));
            assert!(receiver.recv_timeout(SHORT).is_err(), "it waits");

            held.release().unwrap();

            let granted = receiver.recv_timeout(HANG_GUARD).expect("the wait ends");
            granted.expect("the lock is free");
        }

        /// A task of that runtime retries for the request until then.
        #[test]
        fn request_outlives_the_runtime_of_its_manager() {
            let nodes = EmbeddedNodes::new(3);
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.unwrap();
            let spawner = RuntimeSpawner::from(runtime.handle().clone());
            let redlock = Redlock::builder().nodes_from(&nodes).spawner(spawner).build().unwrap();
            let elsewhere = Redlock::builder().nodes_from(&nodes).build().unwrap().blocking();
            let held = elsewhere.lock("x").acquire().unwrap();
            let waiting = redlock.blocking().lock("x").wait(10 * HANG_GUARD);
            let (sender, receiver) = mpsc::channel();
            thread::spawn(move || sender.send(waiting.acquire().map(|_| ())));
            assert!(receiver.recv_timeout(SHORT).is_err(), "it waits");

            runtime.shutdown_background();
            assert!(receiver.recv_timeout(SHORT).is_err(), "it still waits");
            held.release().unwrap();

            let granted = receiver.recv_timeout(HANG_GUARD).expect("the wait ends");
            granted.expect("the lock is free");
        }

        #[test]
        fn calls_without_connections_end_in_time() {
            let unused = ["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"];
            let (_runtime, redlock) = manager(briefly().nodes(unused));
            let call = || redlock.clone();

            let (single, waiting) = (call().lock("x"), call().lock("x").wait(SHORT));
            let single = ended(move || single.acquire());
            assert!(matches!(single, Err(LockError::NoQuorum { .. })), "{single:?}");
            let waited = ended(move || waiting.acquire());
            assert!(matches!(waited, Err(LockError::WaitTimedOut { .. })), "{waited:?}");
            let (inspecting, revoking, starting) = (call(), call(), call());
            assert!(ended(move || inspecting.inspect("x")).is_err());
            assert!(ended(move || revoking.revoke("x")).is_err());
            assert!(ended(move || starting.ready_within(SHORT)).is_err());
            ended(move || redlock.shutdown());
        }

        #[test]
        fn every_set_of_nodes_ends_its_calls() {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let set = |port: u16| {
                let node = format!("redis://127.0.0.1:{port}");
                let spawner = RuntimeSpawner::from(runtime.handle().clone());
                briefly().nodes([node]).spawner(spawner)
            };
            let redlock = Redlock::sharded([set(1), set(2)]).unwrap().blocking();

            for name in ["a", "b", "c", "d"] {
                let request = redlock.lock(name).wait(SHORT);
                let waited = ended(move || request.acquire());
                assert!(matches!(waited, Err(LockError::WaitTimedOut { .. })), "{waited:?}");
            }
            let starting = redlock.clone();
            assert!(ended(move || starting.ready_within(SHORT)).is_err());
            ended(move || redlock.shutdown());
        }
    }
}

/// No thread of the program has a runtime, not even that which builds the manager.
#[test]
fn threads_share_a_manager() {
    let (sender, receiver) = mpsc::channel();
    let building = thread::spawn(move || sender.send(Redlock::embedded().blocking()).unwrap());
    building.join().unwrap();
    let redlock = receiver.recv().unwrap();
    let lock = thread::spawn({
        let redlock = redlock.clone();
        move || redlock.lock("x").acquire().unwrap()
    });
    let lock = lock.join().unwrap();
    assert!(lock.is_valid());
    thread::spawn(move || lock.release()).join().unwrap().unwrap();
    redlock.lock("x").run(|_| ()).unwrap();
}
