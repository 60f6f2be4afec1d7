//! The reasons why a set is not ready, and whether waiting helps.

use std::time::{Duration, Instant};

use tower_redlock::{
    RedlockBuilder,
    lock::NotReady,
    node::{NodeHealth, NodeState, redis::RestartGuard},
};

use super::scene::{MAX_TTL, guarded, in_time, manager, quick, refusal, settled, urls, works};
use crate::{
    failures::log::Log,
    support::{HANG_GUARD, Proxy, RedisServer, eventually_async, over},
};

/// Checks that the text contains all of these parts.
#[track_caller]
fn assert_contains(why: &NotReady, parts: &[&str]) {
    let text = why.to_string();
    assert!(parts.iter().all(|word| text.contains(word)), "{text}");
}

#[tokio::test]
async fn layout_in_use_fails() {
    let servers = RedisServer::start_n(3);
    let _users = settled(&servers).await;
    let started = Instant::now();
    let other = guarded(quick(), urls(&servers[..2])).build().unwrap();

    // An unused set would be taken over meanwhile.
    let why = other.ready_within(HANG_GUARD * 12).await.unwrap_err();

    assert!(!why.heals && started.elapsed() > MAX_TTL, "{why}: {:?}", started.elapsed());
    assert_eq!((why.voting(), why.quorum, why.nodes.len()), (0, 2, 2));

    let both = ["[3 nodes (node-1, node-2, node-3)", "[2 nodes (node-1, node-2)"];
    assert_contains(
        &why,
        &["0 of 2 nodes vote, 2 are needed, and waiting does not help", both[0], both[1]],
    );
    assert!(!other.readiness().unwrap_err().heals);
}

#[tokio::test]
async fn wrong_credentials_fail() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::with(&["--requirepass", "s3cret"])).collect();
    let wrong = servers.iter().map(|server| format!("redis://:wr0ng@{}", server.addr()));
    let redlock = guarded(quick(), wrong).build().unwrap();

    let why = in_time(redlock.ready()).await.unwrap_err();

    assert!(!why.heals);
    assert_contains(
        &why,
        &[
            "node-1: down",
            "authentication failed",
            "do: correct the user and the password, in the URL",
        ],
    );

    let text = why.to_string();
    assert!(!text.contains("s3cret") && !text.contains("wr0ng"), "{text}");
}

#[tokio::test]
async fn one_server_twice_fails() {
    let servers = RedisServer::start_n(2);
    let proxy = Proxy::start(servers[0].addr());
    let at = [servers[0].url(), servers[1].url(), proxy.url()];
    let redlock = over(quick(), at).restart_guard(RestartGuard::Off).build().unwrap();
    refusal(&redlock, 0).await;

    let why = in_time(redlock.ready()).await.unwrap_err();

    assert_eq!((why.heals, why.voting()), (false, 1));
    assert_contains(
        &why,
        &[
            "1 of 3",
            "is the same server as node-1",
            "do: replace one of the two with an independent server",
        ],
    );
}

#[tokio::test]
async fn minority_at_fault_is_tolerated() {
    let mut servers = RedisServer::start_n(2);
    servers.push(RedisServer::with(&["--requirepass", "s3cret"]));
    let redlock = manager(&servers);
    in_time(redlock.ready()).await.unwrap();
    redlock.readiness().unwrap();
    works(&redlock).await;
}

#[tokio::test]
async fn outages_are_waited_out() {
    let mut servers = RedisServer::start_n(3);
    servers[1].kill();
    servers[2].kill();
    let redlock = manager(&servers);
    let limit = MAX_TTL * 3;
    let started = Instant::now();

    let why = in_time(redlock.ready_within(limit)).await.unwrap_err();

    assert!(why.heals && started.elapsed() >= limit, "{why}");
    assert_contains(
        &why,
        &["0 of 3", "node-1: in probation until enough other nodes vote", "node-2: down"],
    );
    assert_contains(&why, &["do: start the server"]);
    assert!(!why.to_string().contains("does not help"), "{why}");

    servers[1].restart();
    in_time(redlock.ready_within(Duration::MAX)).await.unwrap();
}

#[tokio::test]
async fn small_sets_warn_once_at_build() {
    let warns = async |builder: RedlockBuilder, servers: usize, guard| {
        let servers = RedisServer::start_n(servers);
        let log = Log::new();
        let build = async { over(builder, urls(&servers)).restart_guard(guard).build().unwrap() };
        let redlock = log.during(build).await;
        let again = redlock.clone();
        drop((redlock, again));
        (log.count("WARN"), log.text())
    };
    for (servers, parts) in [(1, "a single server"), (2, "both have to vote")] {
        let (count, text) = warns(quick(), servers, RestartGuard::Probation).await;
        assert!(count == 1 && text.contains(parts), "{text}");
        assert_eq!(warns(quick(), servers, RestartGuard::Off).await.0, 0);
        let accepted = quick().accept_few_servers();
        assert_eq!(warns(accepted, servers, RestartGuard::Probation).await.0, 0);
    }

    assert_eq!(warns(quick(), 3, RestartGuard::Probation).await.0, 0);
}

/// The rollout of a layout change: the old services run at the same time as the new ones.
#[tokio::test]
async fn new_set_is_ready_once_adopted() {
    let servers = RedisServer::start_n(5);
    let old = settled(&servers[..3]).await;
    let new = manager(&servers);
    eventually_async("the new client has detected the old set", async || {
        let belongs = |node: &NodeHealth| matches!(node.state, NodeState::Refusing { .. });
        new.health()[..3].iter().all(belongs)
    })
    .await;

    works(&old).await;

    assert!(new.readiness().is_err());
    assert!(old.readiness().is_ok());

    in_time(new.adopt(&old)).await.unwrap();
    in_time(new.ready()).await.unwrap();
    works(&new).await;
    eventually_async("the old set is stopped", async || old.readiness().is_err()).await;
}
