//! The crate's own tasks on the application's runtime.

use std::{future::IntoFuture, thread, time::Duration};

use tokio::runtime::{Builder, Handle, Runtime};
use tower_redlock::{LockError, Redlock, lock::RuntimeSpawner};

use super::scene::{connected, key, patient};
use crate::support::{RedisServer, eventually_async, over};

const TTL: Duration = Duration::from_secs(1);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
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
