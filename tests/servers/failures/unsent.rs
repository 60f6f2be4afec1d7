//! Operations that were never sent did not run: no release is pending for them.

use tower_redlock::{Redlock, error::VoteOutcome};

use super::refusing::old_server;
use super::scene::{all_vote, down, manager, refused, settled, watchful, works};
use crate::support::{Proxy, RedisServer};

#[tokio::test]
async fn ungreeted_node_has_no_pending_releases() {
    let servers = RedisServer::start_n(2);
    let denied = RedisServer::start();
    denied.cli(&["ACL", "SETUSER", "app", "on", ">word", "~other:*", "+@all"]);
    let login = denied.plain_url().replace("redis://", "redis://app:word@");
    let old = old_server();

    for bad in [old.url(), login] {
        let redlock = manager([servers[0].url(), servers[1].url(), bad]);
        settled(&redlock).await;
        assert_nothing_waits(&redlock, 2).await;
    }
}

#[tokio::test]
async fn later_locks_leave_no_pending_releases() {
    let servers = RedisServer::start_n(3);
    let proxy = Proxy::start(servers[2].addr());
    let urls = [servers[0].url(), servers[1].url(), proxy.url()];
    let redlock = watchful(urls);
    all_vote(&redlock).await;
    proxy.stall();
    down(&redlock, 2).await;
    assert_nothing_waits(&redlock, 2).await;
}

async fn assert_nothing_waits(redlock: &Redlock, i: usize) {
    let before = redlock.health()[i].unacknowledged;
    for _ in 0..20 {
        works(redlock).await;
    }
    let health = &redlock.health()[i];
    assert_eq!(health.unacknowledged, before, "nothing was sent to {health:?}");
}

#[tokio::test]
async fn early_and_late_callers_agree() {
    let server = old_server();
    let redlock = manager([server.url()]);
    let first = refused(&redlock).await;
    settled(&redlock).await;
    let later = refused(&redlock).await;
    assert_eq!(first[0].outcome, later[0].outcome);
    let VoteOutcome::NotCounted(reason) = &later[0].outcome else { panic!("{later}") };
    assert!(!reason.may_have_run(), "nothing was sent: {reason:?}");
}
