//! Probations that cannot end show the reason.

use tower_redlock::{
    Redlock,
    error::Reason,
    node::{Blocked, NodeState},
};

use super::scene::{MAX_TTL, all_vote, guarded, quick, settled, tag, urls};
use crate::failures::log::{Log, LoggedSpawner};
use crate::support::{RedisServer, acl, eventually_async};

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
