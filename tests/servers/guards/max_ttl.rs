//! Clients with different values of `max_ttl` use the longest; lowering it waits for longer locks.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tower_redlock::{
    Redlock, RedlockBuilder, Resource,
    error::{LowerError, Reason, VoteOutcome},
    node::{Answer, ExtendOp, ExtendedAnswer, LeaseId, NodeState, Nonce, Op},
    time::Timestamp,
};

use crate::fixture::{
    Fixture, LONG, Log, LoggedSpawner, Proxy, RedisServer, all_vote, eventually_async,
    guard::{
        MAX_TTL, guarded, manager, meta, probation, quick, refusal, settled, taken, votes, works,
    },
    in_time,
    jobs::ask,
    urls,
};

#[tokio::test]
async fn longer_max_ttl_is_raised_only() {
    let servers = RedisServer::start_n(3);
    let short = settled(&servers).await;
    assert_eq!(stored(&servers, "max_ttl"), ["1000"; 3]);
    let long = guarded(longer(), urls(&servers)).build().unwrap();
    all_vote(&long).await;
    assert_eq!(stored(&servers, "max_ttl"), ["2500"; 3]);
    in_time(async { long.lock("x").ttl(LONGER).await }).await.unwrap().release().await.unwrap();
    drop(long);
    let later = settled(&servers).await;
    works(&later).await;
    works(&short).await;
    assert_eq!(stored(&servers, "max_ttl"), ["2500"; 3]);
}

#[tokio::test]
async fn raising_max_ttl_needs_a_quorum() {
    let servers = RedisServer::start_n(3);
    drop(settled(&servers).await);
    servers[1].freeze();
    servers[2].freeze();
    let long = guarded(longer(), urls(&servers)).build().unwrap();
    assert_eq!(refusal(&long, 0).await, Reason::TtlTooLong);
    // Another health check ran, and changed nothing.
    let looks = || servers[0].info("commandstats", "cmdstat_eval").unwrap();
    let before = looks();
    eventually_async("another health check", async || looks() != before).await;
    assert_eq!(meta(&servers[0])["max_ttl"], "1000");
    servers[1].thaw();
    servers[2].thaw();
    all_vote(&long).await;
    assert_eq!(stored(&servers, "max_ttl"), ["2500"; 3]);
}

/// The client with the longer TTL is gone, and the node has forgotten the value.
#[tokio::test]
async fn longer_max_ttl_is_learnt() {
    let mut servers = RedisServer::start_n(3);
    let short = settled(&servers).await;
    let long: Redlock = guarded(longer(), urls(&servers)).build().unwrap();
    all_vote(&long).await;
    drop(long);
    let started = Instant::now();
    servers[1].restart();
    probation(&short, &[1]).await;
    assert_eq!(meta(&servers[1])["max_ttl"], "1000");
    votes(&short, 1).await;
    assert!(started.elapsed() > LONGER, "{:?}", started.elapsed());
    assert_eq!(stored(&servers, "max_ttl"), ["2500"; 3]);
}

#[tokio::test]
async fn new_set_awaits_longest_ttl() {
    let servers = RedisServer::start_n(3);
    let started = Instant::now();
    let long = guarded(longer(), urls(&servers)).build().unwrap();
    probation(&long, &[0, 1, 2]).await;
    let short = manager(&servers);
    in_time(short.ready()).await.unwrap();
    assert!(started.elapsed() > LONGER, "{:?}", started.elapsed());
    all_vote(&long).await;
}

/// Two of three servers forgot, so they start without the third. The third, which is silent,
/// knows of a longer TTL than they do.
#[tokio::test]
async fn starting_nodes_await_a_reachable_one() {
    let mut servers = RedisServer::start_n(3);
    let proxy = Proxy::start(servers[2].addr());
    let log = Log::new();
    // A long timeout: the silent node stays connected.
    let builder = quick().node_timeout(Duration::from_secs(1)).spawner(LoggedSpawner::start(&log));
    let at = [servers[0].url(), servers[1].url(), proxy.url()];
    let redlock = guarded(builder, at).build().unwrap();
    all_vote(&redlock).await;
    servers[2].cli(&["HSET", "redlock:meta", "max_ttl", "2500"]);
    servers[..2].iter_mut().for_each(RedisServer::restart);
    probation(&redlock, &[0, 1]).await;
    proxy.stall();
    log.wait_for("DEBUG", &["the node can't be activated yet"]).await;
    proxy.resume();

    all_vote(&redlock).await;

    assert_eq!(stored(&servers, "max_ttl"), ["2500"; 3]);
}

const LONGER: Duration = Duration::from_millis(2500);

fn longer() -> RedlockBuilder {
    quick().max_ttl(LONGER)
}

fn stored(servers: &[RedisServer], field: &str) -> Vec<String> {
    servers.iter().map(|server| meta(server).remove(field).unwrap_or_default()).collect()
}

/// Servers that were used with longer TTLs in the past.
async fn used_with_longer() -> Vec<RedisServer> {
    let servers = RedisServer::start_n(3);
    let long = guarded(longer(), urls(&servers)).build().unwrap();
    all_vote(&long).await;
    assert_eq!(stored(&servers, "max_ttl"), ["2500"; 3]);
    servers
}

/// Begins to lower `max_ttl`, and waits until all servers refuse longer TTLs.
async fn begun(redlock: &Redlock, servers: &[RedisServer]) -> tokio::task::JoinHandle<()> {
    let redlock = redlock.clone();
    let task = tokio::spawn(async move { in_time(redlock.lower_max_ttl()).await.unwrap() });
    eventually_async("longer TTLs are refused", async || stored(servers, "max_ttl") == ["1000"; 3])
        .await;
    task
}

#[tokio::test]
async fn takes_effect_after_the_old_value() {
    let mut servers = used_with_longer().await;
    let short = settled(&servers).await;
    let started = Instant::now();
    in_time(short.lower_max_ttl()).await.unwrap();
    assert!(started.elapsed() > LONGER, "{:?}", started.elapsed());
    assert_eq!(stored(&servers, "max_ttl"), ["1000"; 3]);
    assert_eq!(stored(&servers, "longer"), [""; 3]);
    servers[1].restart();
    probation(&short, &[1]).await;
    votes(&short, 1).await;
    assert_eq!(stored(&servers, "max_ttl"), ["1000"; 3]);
    let started = Instant::now();
    in_time(short.lower_max_ttl()).await.unwrap();
    assert!(started.elapsed() < LONGER, "no lock is left to wait for");
}

/// The holder is partitioned, so it cannot raise `max_ttl` again.
#[tokio::test]
async fn longer_locks_are_waited_out() {
    let Fixture { mut servers, proxies } = Fixture::new(3);
    let short = settled(&servers).await;
    let long = guarded(longer(), proxies.iter().map(Proxy::url)).build().unwrap();
    all_vote(&long).await;
    proxies[2].cut();
    let held = in_time(async { long.lock("x").ttl(LONGER).wait(LONG).auto_extend(false).await })
        .await
        .unwrap();
    proxies.iter().for_each(Proxy::cut);
    let lowering = begun(&short, &servers).await;
    servers[1].restart();
    assert!(held.is_valid(), "the restart took too long for this test");
    let next = taken(&short, "x").await;
    assert!(!held.is_valid(), "two clients hold the lock");
    drop(next);
    lowering.abort();
}

/// The server keeps its data, so a client that starts then knows of no other node.
#[tokio::test]
async fn single_server_waits_the_old_value() {
    let mut server = [RedisServer::with(&["--appendonly", "yes"])];
    drop({
        let long = guarded(longer(), urls(&server)).build().unwrap();
        all_vote(&long).await;
        long
    });
    let short = settled(&server).await;
    begun_by_one(&short, &server[0]).await;
    let started = Instant::now();
    server[0].restart_keeping_data();
    probation(&short, &[0]).await;
    let NodeState::Probation { remaining, .. } = short.health()[0].state else { panic!() };
    assert!(remaining > MAX_TTL * 3 / 2, "{remaining:?}");
    votes(&short, 0).await;
    assert!(started.elapsed() > LONGER, "{:?}", started.elapsed());
}

async fn begun_by_one(redlock: &Redlock, server: &RedisServer) {
    let task = {
        let redlock = redlock.clone();
        tokio::spawn(async move { redlock.lower_max_ttl().await })
    };
    eventually_async("longer TTLs are refused", async || meta(server)["max_ttl"] == "1000").await;
    task.abort();
}

#[tokio::test]
async fn next_run_completes_an_interrupted_one() {
    let servers = used_with_longer().await;
    let short = settled(&servers).await;
    begun(&short, &servers).await.abort();
    assert!(stored(&servers, "longer").iter().all(|longer| longer.starts_with("2500 ")));
    let started = Instant::now();
    in_time(short.lower_max_ttl()).await.unwrap();
    assert!(started.elapsed() > LONGER, "{:?}", started.elapsed());
    assert_eq!(stored(&servers, "longer"), [""; 3]);
}

#[tokio::test]
async fn client_of_longer_ttls_raises_it() {
    let servers = RedisServer::start_n(3);
    let long = guarded(longer(), urls(&servers)).build().unwrap();
    all_vote(&long).await;
    let lock = in_time(async { long.lock("x").ttl(LONGER).wait(LONG).await }).await.unwrap();
    let short = manager(&servers);
    all_vote(&short).await;
    let error = in_time(short.lower_max_ttl()).await.unwrap_err();
    let LowerError::Incomplete { votes } = &error else { panic!("{error}") };
    let raised = VoteOutcome::NotCounted(Reason::MaxTtlRaised { to: LONGER });
    assert!(votes.iter().all(|vote| vote.outcome == raised), "{error}");
    assert!(error.to_string().contains("lower ttl and max_ttl in the configuration"), "{error}");
    assert!(lock.is_valid(), "the lock was renewed meanwhile");
    assert_eq!(stored(&servers, "max_ttl"), ["2500"; 3]);
    assert_eq!(stored(&servers, "longer"), [""; 3]);
    lock.release().await.unwrap();
}

/// A renewal stores a TTL as a grant does: between two health checks the script refuses.
#[tokio::test]
async fn longer_ttls_are_not_renewed() {
    let servers = RedisServer::start_n(1);
    let redlock = settled(&servers).await;
    let node = &redlock.nodes()[0];
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let name = Resource::try_from("x").unwrap();
    let lease = Arc::new(LeaseId::new(name, Nonce::from_bytes([7; 16]), "me".into(), now));
    let extend = async || {
        let op =
            ExtendOp::new(Arc::clone(&lease), MAX_TTL, Timestamp::MAX, Duration::from_secs(30));
        in_time(ask(node, Op::Extend(op.token(1)))).await
    };
    assert_eq!(extend().await, Ok(Answer::Extended(ExtendedAnswer::UNAWAITED)));
    eventually_async("the script refuses the TTL", async || {
        servers[0].cli(&["DEL", "redlock:lock:x"]);
        servers[0].cli(&["HSET", "redlock:meta", "max_ttl", "999"]);
        extend().await == Err(Reason::TtlTooLong)
    })
    .await;
    assert!(!servers[0].exists("redlock:lock:x"));
    eventually_async("max_ttl is raised again", async || {
        extend().await == Ok(Answer::Extended(ExtendedAnswer::UNAWAITED))
    })
    .await;
}
