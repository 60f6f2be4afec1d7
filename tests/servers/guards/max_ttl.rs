//! Clients with different values of `max_ttl` use the longest.

use std::time::{Duration, Instant};

use tower_redlock::{LockError, Redlock, RedlockBuilder, error::Reason};

use super::scene::{
    MAX_TTL, all_vote, guarded, in_time, manager, meta, probation, quick, refusal, settled, taken,
    urls, votes, works,
};
use crate::{
    failures::log::{Log, LoggedSpawner},
    support::{Proxy, RedisServer, ServerScene, eventually_async},
};

const LONGER: Duration = Duration::from_millis(2500);

fn longer() -> RedlockBuilder {
    quick().max_ttl(LONGER)
}

fn stored(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(|server| meta(server)["max_ttl"].clone()).collect()
}

#[tokio::test]
async fn ttl_above_max_ttl_is_refused() {
    let ServerScene { servers, proxies } = ServerScene::new(3);
    let redlock = guarded(quick(), proxies.iter().map(Proxy::url)).build().unwrap();
    all_vote(&redlock).await;
    let scripts = |server: &RedisServer| server.info("commandstats", "cmdstat_evalsha");
    let before: Vec<_> = servers.iter().map(scripts).collect();

    let error = redlock.lock("x").ttl(MAX_TTL + Duration::from_millis(1)).await.unwrap_err();

    assert!(
        matches!(&error, LockError::InvalidRequest(text) if text.contains("max_ttl")),
        "{error}"
    );
    assert_eq!(servers.iter().map(scripts).collect::<Vec<_>>(), before);
}

#[tokio::test]
async fn longer_max_ttl_is_raised_only() {
    let servers = RedisServer::start_n(3);
    let short = settled(&servers).await;

    assert_eq!(stored(&servers), ["1000"; 3]);

    let long = guarded(longer(), urls(&servers)).build().unwrap();
    all_vote(&long).await;
    assert_eq!(stored(&servers), ["2500"; 3]);

    in_time(async { long.lock("x").ttl(LONGER).await }).await.unwrap().release().await.unwrap();
    drop(long);
    let later = settled(&servers).await;
    works(&later).await;
    works(&short).await;

    assert_eq!(stored(&servers), ["2500"; 3]);
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
    assert_eq!(stored(&servers), ["2500"; 3]);
}

#[tokio::test]
async fn probation_lasts_for_longest_max_ttl() {
    let mut servers = RedisServer::start_n(3);
    let short = settled(&servers).await;
    let long = guarded(longer(), urls(&servers)).build().unwrap();
    all_vote(&long).await;
    let started = Instant::now();
    servers[1].restart();
    probation(&short, &[1]).await;

    votes(&short, 1).await;

    assert!(started.elapsed() > LONGER, "{:?}", started.elapsed());

    votes(&long, 1).await;
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
    assert_eq!(stored(&servers), ["2500"; 3]);
}

#[tokio::test]
async fn short_client_respects_longest_ttl() {
    let ServerScene { mut servers, proxies } = ServerScene::new(3);
    let short = settled(&servers).await;
    let long = guarded(longer(), proxies.iter().map(Proxy::url)).build().unwrap();
    all_vote(&long).await;
    proxies[2].cut();
    let held =
        in_time(async { long.lock("x").ttl(LONGER).auto_extend(false).await }).await.unwrap();

    servers[1].restart();

    assert!(held.is_valid(), "the restart took too long for this test");

    let next = taken(&short, "x").await;
    assert!(!held.is_valid(), "two clients hold the lock");

    drop(next);
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

    assert_eq!(stored(&servers), ["2500"; 3]);
}
