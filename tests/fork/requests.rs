//! Every entry point that would wait for the thread fails at once, with the reason.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tower_redlock::lock::ThreadSpawner;
use tower_redlock::scheduler::StartError;
use tower_redlock::{
    Job, LockError, Redlock, Schedule, Scheduler, diagnosis::Verdict, error::ReleaseError,
    node::NodeState, once::OnceError,
};

use crate::child::in_child;
use crate::support::{HANG_GUARD, RedisServer, eventually_async, over};

fn is_forked(error: &LockError, parent: u32) -> bool {
    let is_forked = *error == LockError::Forked { built_in: parent };
    is_forked && error.to_string().contains(&parent.to_string())
}

/// All futures are ready at the first poll: no thread of the child could wake them.
fn assert_all_fail(redlock: &Redlock, parent: u32) {
    let now = "ready at once";
    let error = redlock.lock("a").wait(HANG_GUARD).into_future().now_or_never().expect(now);
    assert!(is_forked(&error.unwrap_err(), parent));
    let ran = redlock.lock("a").run(|_| async {}).now_or_never().expect(now);
    assert!(is_forked(&ran.unwrap_err(), parent));
    let once = redlock.once("a").run(|_| async { Ok::<_, LockError>(()) }).now_or_never();
    let Err(OnceError::Lock(error)) = once.expect(now) else { panic!("it ran") };
    assert!(is_forked(&error, parent));
    let status = redlock.once("a").status().now_or_never().expect(now);
    assert!(status.unwrap_err().to_string().contains("fork"));
    let led = redlock.leader("a").run(|_| async {}).now_or_never().expect(now);
    assert!(is_forked(&led.unwrap_err(), parent));
    redlock.leader("a").resign().now_or_never().expect(now);
    redlock.leader("a").stop().now_or_never().expect(now);
    let job = Job::new("a", Schedule::every(Duration::from_secs(1)), |_| async {
        Ok::<_, LockError>(())
    });
    let started = Scheduler::new(redlock.clone()).job(job).start();
    assert_eq!(started.unwrap_err(), StartError::Forked { built_in: parent });

    let why = redlock.ready().now_or_never().expect(now).unwrap_err();
    assert!(!why.heals && why.to_string().contains("fork"), "{why}");
    redlock.shutdown().now_or_never().expect(now);
    assert!(redlock.lower_max_ttl().now_or_never().expect(now).is_err());
    let inspected = redlock.inspect("a").now_or_never().expect(now);
    assert!(inspected.unwrap_err().to_string().contains("fork"));
    assert!(redlock.key_counts().now_or_never().expect(now).iter().all(Result::is_err));
    let diagnosis = redlock.diagnosis().into_future().now_or_never().expect(now);
    assert_eq!((diagnosis.verdict(), diagnosis.voting()), (Verdict::NoQuorum, 0));
    let down = diagnosis.advice.iter().filter(|advice| advice.code == "down").collect::<Vec<_>>();
    assert_eq!(down.len(), redlock.nodes().len());
    assert!(down.iter().all(|advice| advice.what.contains("fork")), "{down:#?}");
    let adopted = redlock.adopt(redlock).now_or_never().expect(now);
    assert!(adopted.unwrap_err().to_string().contains("fork"));
    for node in redlock.health() {
        let NodeState::Down { reason, .. } = &node.state else { panic!("{node:?}") };
        assert!(reason.to_string().contains("fork"), "{reason}");
    }
}

#[test]
fn requests_fail_in_a_child() {
    let redlock = Redlock::embedded();
    let parent = process::id();
    in_child(|| {
        assert_all_fail(&redlock, parent);
        let blocking = redlock.blocking().lock("a").run(|_| ());
        assert!(is_forked(&blocking.unwrap_err(), parent));
        drop(redlock);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_parent_keeps_its_lock() {
    let server = RedisServer::start();
    let redlock = over(Redlock::builder(), [server.url()]).build().unwrap();
    redlock.ready().await.unwrap();
    let lock = redlock.lock("a").await.unwrap();
    let (parent, of_parent) = (process::id(), redlock.clone());

    let lock = tokio::task::spawn_blocking(move || {
        let mut lock = Some(lock);
        in_child(|| {
            let lock = lock.take().unwrap();
            assert!(!lock.is_valid() && lock.remaining().is_zero());
            let context = lock.context();
            assert!(!context.is_valid() && context.is_stopping() && context.remaining().is_zero());
            assert!(is_forked(&context.ensure_valid().unwrap_err(), parent));
            let extended = lock.extend().now_or_never().expect("ready at once");
            assert!(is_forked(&extended.unwrap_err(), parent));
            let released = lock.release().now_or_never().expect("ready at once");
            assert!(matches!(released, Err(ReleaseError::NoQuorum { .. })));
            assert_all_fail(&of_parent, parent);
        });
        lock.unwrap()
    })
    .await
    .unwrap();

    assert!(lock.is_valid() && server.exists("redlock:lock:a"));

    lock.extend().await.unwrap();
    lock.release().await.unwrap();
    redlock.lock("a").await.unwrap().release().await.unwrap();
}

#[test]
fn a_manager_of_the_child_works() {
    let server = RedisServer::start();
    let build = |server: &RedisServer| over(Redlock::builder(), [server.url()]).build().unwrap();
    let _parents = build(&server);

    in_child(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let redlock = build(&server);
            redlock.ready().await.unwrap();
            redlock.lock("a").await.unwrap().release().await.unwrap();
        });
    });
}

/// At the fork, threads that the child lacks may hold mutexes of the library.
#[test]
fn busy_parents_children_do_not_hang() {
    const FORKS: usize = 50;
    let redlock = Redlock::builder()
        .nodes_from(&tower_redlock::node::EmbeddedNodes::new(5))
        .spawner(ThreadSpawner::start().unwrap())
        .build()
        .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|i| {
            let (redlock, over) = (redlock.clone(), over.clone());
            runtime.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let name = format!("busy{}", i % 4);
                    let lock = redlock.lock(&*name).wait(HANG_GUARD).await.unwrap();
                    tokio::task::yield_now().await;
                    lock.release().await.unwrap();
                }
            })
        })
        .collect();
    let parent = process::id();
    for _ in 0..FORKS {
        let mut lock = Some(runtime.block_on(async { redlock.lock("ours").await.unwrap() }));
        in_child(|| {
            let lock = lock.take();
            assert_all_fail(&redlock, parent);
            drop((lock, redlock.clone()));
        });
    }
    over.store(true, Ordering::Relaxed);

    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_lingers_on_in_the_parent() {
    let server = RedisServer::start();
    let linger = Duration::from_secs(60);
    let builder = over(Redlock::builder(), [server.url()]).ttl(linger * 4).linger(linger);
    let redlock = builder.build().unwrap();
    redlock.ready().await.unwrap();
    eventually_async("a lock lingers", async || {
        drop(redlock.lock("a").await.unwrap());
        !redlock.snapshot().lingering.is_empty()
    })
    .await;
    let (copy, parent) = (redlock.clone(), process::id());

    in_child(|| {
        assert_all_fail(&copy, parent);
        drop(copy);
    });

    assert_eq!(redlock.snapshot().lingering.len(), 1);
    assert!(redlock.inspect("a").await.unwrap().is_some_and(|holder| holder.lingers));
}
