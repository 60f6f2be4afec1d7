//! What was never sent is known not to have run: nothing is left to undo.

use tower_redlock::{Redlock, error::VoteOutcome};

use super::refusing::old_server;
use super::scene::{all_vote, down, manager, refused, settled, watchful, works};
use crate::support::{Proxy, RedisServer};

#[tokio::test]
async fn a_node_that_never_greeted_well_has_no_releases_waiting() {
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
async fn a_node_that_is_down_has_no_releases_waiting_of_locks_that_came_later() {
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
    let before = redlock.health()[i].pending_releases;
    for _ in 0..20 {
        works(redlock).await;
    }
    let health = &redlock.health()[i];
    assert_eq!(health.pending_releases, before, "nothing was sent to {health:?}");
}

#[tokio::test]
async fn a_node_says_the_same_to_who_waited_for_its_first_greeting_and_to_who_came_later() {
    let server = old_server();
    let redlock = manager([server.url()]);
    let first = refused(&redlock).await;
    settled(&redlock).await;
    let later = refused(&redlock).await;
    assert_eq!(first[0].outcome, later[0].outcome);
    let VoteOutcome::NotCounted(reason) = &later[0].outcome else { panic!("{later}") };
    assert!(!reason.may_have_run(), "nothing was sent: {reason:?}");
}
