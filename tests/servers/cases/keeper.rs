//! Where the crate's own tasks run: on a thread of the manager, or on the application's runtime.

use std::{
    future::IntoFuture,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use tokio::runtime::Handle;
use tower_redlock::{LockError, Redlock, lock::RuntimeSpawner};

use crate::fixture::{
    HANG_GUARD, RedisServer, connected, eventually_async, key, over, patient, runtime,
};

const TTL: Duration = Duration::from_secs(1);

/// The only thread of the only runtime sleeps for three TTLs, inside a poll of the guarded work.
#[test]
fn blocked_runtime_keeps_the_lock() {
    let servers = RedisServer::start_n(3);
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let (begin, at_work) = mpsc::channel();
    let blocked = thread::spawn(move || {
        let runtime = runtime();
        runtime.block_on(async {
            let redlock = connected(over(Redlock::builder().ttl(TTL), urls)).await;
            let request = redlock.lock("x").wait(HANG_GUARD);
            let result = request
                .run(|cx| async move {
                    begin.send(()).unwrap();
                    // Blocks the only thread in real time, as the servers' TTLs count real time.
                    thread::sleep(TTL * 3);
                    cx.ensure_valid().map(|()| cx.fencing_token())
                })
                .await;
            redlock.shutdown().await;
            result
        })
    });
    at_work.recv_timeout(HANG_GUARD).unwrap();
    // The votes of slower nodes arrive meanwhile.
    crate::fixture::eventually("every server keeps the key", || {
        servers.iter().all(|server| server.exists(&key("x")))
    });
    let started = Instant::now();
    let mut looks = 0;
    while started.elapsed() < TTL * 2 {
        let left: Vec<_> = servers.iter().map(|server| server.pttl(&key("x"))).collect();
        assert!(left.iter().all(|left| *left > 0), "{left:?} after {:?}", started.elapsed());
        looks += 1;
    }
    assert!(looks > 2);
    let result = blocked.join().unwrap();
    assert!(matches!(result, Ok(Ok(_))), "{result:?}");
    assert!(servers.iter().all(|server| !server.exists(&key("x"))));
}

fn alive() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

async fn on_runtime(servers: &[RedisServer]) -> Redlock {
    let builder = patient().ttl(TTL).spawner(RuntimeSpawner::current());
    connected(over(builder, servers.iter().map(RedisServer::url))).await
}

#[test]
fn tasks_run_and_end_there() {
    let servers = RedisServer::start_n(3);
    runtime().block_on(async {
        let redlock = on_runtime(&servers).await;
        assert!(alive() > 0, "no task of the manager is on the runtime");
        let lock = redlock.lock("x").await.unwrap();
        // A renewal begins when a third of the validity has passed.
        eventually_async("a renewal is due", async || lock.remaining() < TTL * 2 / 3).await;
        eventually_async("it is renewed", async || lock.remaining() > TTL * 2 / 3).await;
        assert_eq!(lock.release().await, Ok(tower_redlock::lock::Released::Released));
        redlock.shutdown().await;
        drop(redlock);
        eventually_async("its tasks end", async || alive() == 0).await;
    });
    assert!(servers.iter().all(|server| !server.exists(&key("x"))));
}

/// The drawback of this option: renewals of the default spawner continue instead
/// (`keeper::blocked_runtime_keeps_the_lock`).
#[test]
fn blocked_runtime_loses_the_lock() {
    let servers = RedisServer::start_n(3);
    runtime().block_on(async {
        let redlock = on_runtime(&servers).await;
        let work = redlock.lock("x").run(async |cx| {
            // Real time passes, as in the servers' TTLs.
            thread::sleep(TTL * 2);
            cx.ensure_valid()
        });
        let ended = work.await.unwrap();
        assert!(ended.is_err(), "{ended:?}");
    });
}

/// The runtime of the tasks has ended, and the manager is used from another: nothing hangs.
#[test]
fn requests_fail_after_the_runtime() {
    const WAIT: Duration = Duration::from_millis(200);
    let servers = RedisServer::start_n(3);
    let first = runtime();
    let redlock = first.block_on(on_runtime(&servers));
    let [held, lost] =
        ["held", "lost"].map(|name| first.block_on(redlock.lock(name).into_future()).unwrap());
    let elsewhere = first.block_on(on_runtime(&servers));
    let waiting = ["held", "lost"].map(|name| {
        let request = elsewhere.lock(name).wait(TTL * 2);
        thread::spawn(move || runtime().block_on(request.into_future()))
    });
    first.block_on(async {
        for name in ["held", "lost"] {
            let is_awaited =
                async || redlock.inspect(name).await.unwrap().is_some_and(|it| it.is_awaited);
            eventually_async("its first try was refused", is_awaited).await;
        }
    });
    first.shutdown_background();
    runtime().block_on(async {
        let refused = redlock.lock("x").wait(WAIT).await;
        assert!(refused.is_err(), "{refused:?}");
        let told = held.release().await;
        assert!(told.is_err(), "{told:?}");
        lost.lost().await;
    });
    for request in waiting {
        let refused = request.join().unwrap();
        assert!(matches!(refused, Err(LockError::WaitTimedOut { .. })), "{refused:?}");
    }
}
