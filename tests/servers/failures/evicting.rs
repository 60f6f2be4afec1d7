//! Servers that may evict keys.

use tower_redlock::{
    LockError, Redlock,
    error::{Reason, VoteOutcome},
    node::{NodeState, redis::EvictionGuard},
};

use crate::fixture::{
    Log, LoggedSpawner, RedisServer, all_vote, eventually_async,
    faults::{patient, works},
    in_time, urls,
};

const LIMIT: &str = "100mb";

fn evicting(server: &RedisServer) {
    server.set_config("maxmemory", LIMIT);
    server.set_config("maxmemory-policy", "allkeys-lru");
}

fn manager(servers: &[RedisServer], guard: EvictionGuard, log: &Log) -> Redlock {
    let builder = patient(urls(servers)).eviction_guard(guard);
    builder.spawner(LoggedSpawner::start(log)).build().unwrap()
}

fn refusal(redlock: &Redlock) -> Option<Reason> {
    match &redlock.health()[0].state {
        NodeState::Refusing { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}

fn evicts() -> Reason {
    Reason::Evicts { policy: "allkeys-lru".into() }
}

#[tokio::test]
async fn evicting_server_warns_and_votes() {
    let servers = RedisServer::start_n(3);
    evicting(&servers[0]);
    let log = Log::new();
    let redlock = manager(&servers, EvictionGuard::Warn, &log);
    all_vote(&redlock).await;
    log.wait_for("WARN", &["may evict locks", "node-1", "allkeys-lru", "104857600"]).await;
    let memory = |i: usize| redlock.health()[i].memory.clone().expect("INFO reports the memory");
    assert!(memory(0).evicts());
    assert_eq!((memory(0).limit, &*memory(0).policy), (100 << 20, "allkeys-lru"));
    assert!(!memory(1).evicts() && !memory(2).evicts());
    works(&redlock).await;
    // A policy alone, or a limit alone, evicts nothing.
    servers[1].set_config("maxmemory-policy", "volatile-ttl");
    servers[2].set_config("maxmemory", LIMIT);
    eventually_async("the limit is detected", async || {
        &*memory(1).policy == "volatile-ttl" && memory(2).limit > 0
    })
    .await;
    assert!(!memory(1).evicts() && !memory(2).evicts());
    assert_eq!(log.text().matches("may evict locks").count(), 1, "logged once:\n{}", log.text());
    // Health checks detect a change.
    servers[2].set_config("maxmemory-policy", "allkeys-random");
    log.wait_for("WARN", &["may evict locks", "node-3", "allkeys-random"]).await;
    works(&redlock).await;
}

#[tokio::test]
async fn evicting_server_may_be_refused() {
    let mut servers = RedisServer::start_n(3);
    evicting(&servers[0]);
    let log = Log::new();
    let redlock = manager(&servers, EvictionGuard::Refuse, &log);
    eventually_async("the server is refused", async || refusal(&redlock) == Some(evicts())).await;
    log.wait_for("WARN", &["node has no vote", "node-1", "allkeys-lru"]).await;
    in_time(redlock.ready()).await.unwrap();
    works(&redlock).await;
    servers[2].kill();
    eventually_async("the server is down", async || !redlock.health()[2].is_voting()).await;
    let error = in_time(async { redlock.lock("a").await }).await.unwrap_err();
    let LockError::NoQuorum { votes } = error else { panic!("{error}") };
    assert_eq!(votes[0].outcome, VoteOutcome::NotCounted(evicts()));
    assert!(!servers[0].exists("redlock:lock:a"));
    servers[0].set_config("maxmemory-policy", "noeviction");
    eventually_async("the server votes", async || redlock.health()[0].is_voting()).await;
    let lock = in_time(async { redlock.lock("a").await }).await.unwrap();
    assert!(servers[0].exists("redlock:lock:a"));
    // A lock that the server granted is renewed there, also after it lost its vote.
    servers[0].set_config("maxmemory-policy", "allkeys-lru");
    eventually_async("the server is refused", async || refusal(&redlock) == Some(evicts())).await;
    in_time(lock.extend()).await.unwrap();
    in_time(lock.release()).await.unwrap();
}
