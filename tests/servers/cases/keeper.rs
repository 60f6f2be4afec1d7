//! Renewals do not depend on the runtime of the work, and share writes.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tower_redlock::{Redlock, lock::ThreadSpawner};

use super::scene::{Scene, connected, key, patient};
use crate::support::{HANG_GUARD, RedisServer, eventually_async, over};

const TTL: Duration = Duration::from_secs(1);

/// The only thread of the only runtime sleeps for three TTLs, inside a poll of the guarded work.
#[test]
fn blocked_runtime_keeps_the_lock() {
    let servers = RedisServer::start_n(3);
    let urls: Vec<_> = servers.iter().map(RedisServer::url).collect();
    let (begin, at_work) = mpsc::channel();
    let blocked = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
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
    crate::support::eventually("every server keeps the key", || {
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

/// All renewals of a process wait in one ordered map on one thread, and share writes.
#[tokio::test]
async fn many_renewals_share_few_writes() {
    const LOCKS: usize = 10_000;
    let server = RedisServer::start();
    let ttl = Duration::from_secs(20);
    let builder = patient().ttl(ttl).spawner(ThreadSpawner::start().unwrap());
    let redlock = connected(over(builder, [server.url()])).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let locks = join_all((0..LOCKS).map(|i| {
        let request = redlock.lock(format!("x{i}")).wait(HANG_GUARD);
        request.into_future()
    }))
    .await;

    let locks: Vec<_> = locks.into_iter().map(Result::unwrap).collect();

    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), tasks);

    let reads =
        || -> usize { server.info("stats", "total_reads_processed").unwrap().parse().unwrap() };
    let before = reads();
    // A renewal begins when a third of the validity has passed.
    let shortest = |at_least: Duration| locks.iter().all(|lock| lock.remaining() > at_least);
    eventually_async("the first renewal is due", async || !shortest(ttl * 2 / 3)).await;
    eventually_async("all are renewed", async || shortest(ttl * 2 / 3)).await;
    let used = reads() - before;

    assert!(used < LOCKS / 10, "{used} reads of the server for {LOCKS} renewals");
    assert!(locks.iter().all(tower_redlock::Lock::is_valid));

    drop(locks);
    redlock.shutdown().await;
}

#[tokio::test]
async fn max_hold_ends_renewal_and_work() {
    let scene = Scene::new(3);
    let redlock = scene.direct(Redlock::builder().ttl(TTL)).await;
    let hold = TTL * 2;
    let started = Instant::now();
    let request = redlock.lock("x").wait(HANG_GUARD).max_hold(hold);
    let result = request.run(|_| std::future::pending::<()>()).await;

    let took = started.elapsed();

    assert!(
        matches!(
            &result,
            Err(tower_redlock::LockError::Lost {
                cause: tower_redlock::error::LossCause::MaxHold { limit }
            }) if *limit == hold
        ),
        "{result:?}"
    );
    assert!(took >= hold.mul_f64(0.9), "{took:?}");

    scene.all_keys_gone().await;
}
