//! The reasons why a set is not ready, and whether waiting helps; probations that cannot end.

use std::time::{Duration, Instant};

use tower_redlock::{
    Redlock, RedlockBuilder,
    error::Reason,
    lock::NotReady,
    node::{Blocked, NodeState, redis::RestartGuard},
};

use crate::fixture::{
    HANG_GUARD, Log, LoggedSpawner, Proxy, RedisServer, acl, all_vote, eventually_async,
    guard::{MAX_TTL, guarded, manager, quick, refusal, settled, tag},
    in_time, over, urls,
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

/// Waits until the node shows why its probation cannot end.
async fn blocked(redlock: &Redlock, node: usize) -> Blocked {
    let mut found = None;
    eventually_async("the probation is shown as blocked", async || {
        if let NodeState::Probation { blocked, .. } = &redlock.health()[node].state {
            found.clone_from(blocked);
        }
        found.is_some()
    })
    .await;
    found.expect("a reason")
}

#[tokio::test]
async fn denied_read_names_other_node() {
    let mut servers = RedisServer::start_n(3);
    drop(settled(&servers).await);
    let rules: Vec<_> = acl::rules().into_iter().filter(|rule| *rule != "+hgetall").collect();
    for server in &servers[..2] {
        server.set_rules(&rules);
    }
    servers[2].restart();
    let log = Log::new();
    let builder = guarded(quick(), urls(&servers)).spawner(LoggedSpawner::start(&log));
    let redlock = builder.build().unwrap();
    let blocked = blocked(&redlock, 2).await;
    assert!(["node-1", "node-2"].contains(&&*blocked.asked), "{blocked}");
    assert!(matches!(blocked.reason, Reason::NoPermission(_)), "{blocked}");
    log.wait_for("WARN", &["probation can't end yet", "node-3", &blocked.asked]).await;
    let shown = redlock.health()[2].to_string();
    assert!(shown.contains(&format!("can't end yet: {}: permission", blocked.asked)), "{shown}");
    redlock.diagnosis().await;
    let denied = &redlock.health()[0].denied;
    assert_eq!(denied.iter().map(|rule| &**rule).collect::<Vec<_>>(), ["hgetall"]);
    for server in &servers[..2] {
        server.set_rules(&acl::rules());
    }
    tokio::time::timeout(MAX_TTL * 30, all_vote(&redlock)).await.expect("the probation ends");
}

/// The fences would stay under a key that is no longer used, so the record is not changed.
#[tokio::test]
async fn denied_rename_changes_nothing() {
    let servers = RedisServer::start_n(1);
    let rules: Vec<_> = acl::rules().into_iter().filter(|rule| *rule != "+rename").collect();
    servers[0].set_rules(&rules);
    let redlock = guarded(quick(), urls(&servers)).build().unwrap();
    let blocked = blocked(&redlock, 0).await;
    assert!(matches!(blocked.reason, Reason::NoPermission(_)), "{blocked}");
    assert!(tag(&servers[0]).starts_with("p "), "{}", tag(&servers[0]));
    servers[0].set_rules(&acl::rules());
    tokio::time::timeout(MAX_TTL * 30, all_vote(&redlock)).await.expect("the probation ends");
}
