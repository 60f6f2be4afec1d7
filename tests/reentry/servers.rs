//! Locks over real servers that stop, restart, refuse and lose data.

use std::{
    future::IntoFuture,
    thread,
    time::{Duration, Instant},
};

use tower_redlock::{
    LockError, Redlock,
    node::{NodeHealth, redis::RestartGuard},
};

use crate::{
    reenter::{assert_told, block_on, use_context, use_manager, was_told, without_deadlock},
    support::{HANG_GUARD, RedisServer, acl, over},
};

/// Events request the same name, and so disturb requests that do not wait.
const PATIENT: Duration = Duration::from_secs(30);
const MAX_TTL: Duration = Duration::from_millis(500);

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < HANG_GUARD * 3, "still waiting: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn told(message: &str) {
    until(message, || was_told(message));
}

fn all_vote(redlock: &Redlock) {
    until("every node votes", || redlock.health().iter().all(NodeHealth::is_voting));
}

fn guarded(servers: &[RedisServer]) -> Redlock {
    let builder = Redlock::builder().ttl(MAX_TTL).node_timeout(MAX_TTL / 10);
    let urls = servers.iter().map(RedisServer::url);
    let redlock = over(builder, urls).restart_guard(RestartGuard::Probation).build().unwrap();
    use_manager(&redlock);
    redlock
}

#[test]
fn servers_that_restart_refuse_and_forget() {
    without_deadlock(|| {
        let mut servers = RedisServer::start_n(3);
        let redlock = guarded(&servers);
        all_vote(&redlock);
        let lock = block_on(redlock.lock("x").wait(PATIENT).into_future()).unwrap();
        use_context(lock.context());
        until("records are whole", || {
            block_on(redlock.once("done").run(|_| async { Ok::<_, u8>(1) })).is_ok()
        });
        // A probation, which copies records and cannot end at first.
        let rules = acl::rules();
        let fewer: Vec<_> = rules.iter().copied().filter(|rule| *rule != "+hgetall").collect();
        for server in &servers[..2] {
            server.set_rules(&fewer);
        }
        servers[2].kill();
        told("node is down");
        servers[2].restart();
        told("node is up again");
        told("the node may have forgotten locks, and is in probation");
        told("the node's probation can't end yet");
        for server in &servers[..2] {
            server.set_rules(&rules);
        }
        told("probation ended");
        told("long-lived records were copied");
        all_vote(&redlock);
        // Refusals.
        for server in &servers {
            server.set_config("maxmemory", "1");
        }
        block_on(redlock.lock("y").into_future()).unwrap_err();
        told("node refuses");
        for server in &servers {
            server.set_config("maxmemory", "0");
        }
        told("node no longer refuses");
        servers[0].set_config("maxmemory", "1gb");
        servers[0].set_config("maxmemory-policy", "allkeys-lru");
        told("the server may evict locks: set maxmemory-policy noeviction");
        drop(lock);
        drop(block_on(redlock.lock("z").wait(PATIENT).acquire()).unwrap());
        assert_told(&["node is up", "the node may vote again"]);
    });
}

#[test]
fn one_server_under_two_names() {
    without_deadlock(|| {
        let servers = RedisServer::start_n(2);
        let twice = [servers[0].url(), servers[0].url_by_name(), servers[1].url()];
        let redlock = over(Redlock::builder(), twice).build().unwrap();
        use_manager(&redlock);
        told("node has no vote");
        assert!(redlock.health().iter().filter(|node| !node.is_voting()).count() >= 2);
    });
}

#[test]
fn clocks_that_jump() {
    without_deadlock(|| {
        let servers: Vec<_> = (0..3).map(|_| RedisServer::with_clock(&[])).collect();
        let redlock = guarded(&servers);
        all_vote(&redlock);
        // A grant may be too old when this thread gets it on a busy machine.
        let lock = loop {
            match block_on(redlock.lock("x").wait(PATIENT).into_future()) {
                Ok(lock) => break lock,
                Err(error) => assert!(matches!(error, LockError::TooSlow { .. }), "{error:?}"),
            }
        };
        servers[0].set_clock_offset(300.0);
        told("the server's clock jumped; it does not vote for max_ttl");
        drop(lock);
    });
}

#[test]
fn releases_with_and_without_hints() {
    without_deadlock(|| {
        let servers = RedisServer::start_n(3);
        let (holder, waiter) = (guarded(&servers), guarded(&servers));
        all_vote(&holder);
        all_vote(&waiter);
        for denied in [false, true] {
            if denied {
                let rules = ["on", ">s3cret", "~redlock:*", "&*", "+@all", "-subscribe"];
                for server in &servers {
                    server.set_rules(&rules);
                }
                for server in &servers {
                    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
                }
            }
            let lock = block_on(holder.lock("x").wait(PATIENT).into_future()).unwrap();
            let waiting = waiter.lock("x").wait(PATIENT).into_future();
            let waiting = thread::spawn(move || drop(block_on(waiting).unwrap()));
            if denied {
                told(
                    "the server denies a command that wake-ups need: waiters retry at intervals instead",
                );
            } else {
                let listens = |server: &RedisServer| {
                    let count = server.cli(&["PUBSUB", "NUMSUB", "redlock:free:x"]);
                    count.items()[1].int() == 1
                };
                until("the servers know the waiter", || servers.iter().all(listens));
            }
            drop(lock);
            waiting.join().unwrap();
        }
    });
}
