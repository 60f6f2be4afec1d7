//! A node's health shows why its last votes were refused, and which releases are pending.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use tower_redlock::{
    LockError, Redlock,
    error::{Reason, VoteOutcome},
    node::NodeState,
};

use super::refusing::old_server;
use crate::fixture::{
    FakeServer, Log, LoggedSpawner, Proxy, Reaction, RedisServer, acl, all_vote, eventually_async,
    fake,
    faults::{down, manager, patient, refused, settled, watchful, works},
    in_time,
};

/// Waits until the first node's health is refusing.
async fn refuses(redlock: &Redlock, expected: impl Fn(&Reason) -> bool) {
    eventually_async("the health shows the refusal", async || match &redlock.health()[0].state {
        NodeState::Refusing { reason, .. } => expected(reason),
        _ => false,
    })
    .await;
    let mut ready = pin!(redlock.ready());
    let is_ready = poll_fn(|cx| Poll::Ready(ready.as_mut().poll(cx).is_ready())).await;
    assert!(!is_ready, "ready without a vote");
}

/// A server that completes the greeting, and answers votes with `refusal` until it is cleared.
fn refusing(refusal: fn(&[Vec<u8>]) -> Reaction) -> (FakeServer, Arc<AtomicBool>) {
    let refuses = Arc::new(AtomicBool::new(true));
    let is_refusing = Arc::clone(&refuses);
    let server = fake::greeting(move |command| {
        let answer = if is_refusing.load(Ordering::SeqCst) { refusal } else { fake::granted };
        answer(command)
    });
    (server, refuses)
}

async fn shows(refusal: fn(&[Vec<u8>]) -> Reaction, expected: impl Fn(&Reason) -> bool) {
    let (server, is_refusing) = refusing(refusal);
    let redlock = manager([server.url()]);
    all_vote(&redlock).await;
    for _ in 0..2 {
        refused(&redlock).await;
        refuses(&redlock, &expected).await;
        // No locks are requested: the refusal expires.
        in_time(redlock.ready()).await.unwrap();
    }
    is_refusing.store(false, Ordering::SeqCst);
    all_vote(&redlock).await;
}

#[tokio::test]
async fn refusals_show_until_they_expire() {
    let error = |_: &_| Reaction::error("ERR something is wrong");
    shows(error, |reason| matches!(reason, Reason::Server(text) if text.contains("wrong"))).await;
    let nonsense = |_: &_| Reaction::bulk("nonsense");
    shows(nonsense, |reason| matches!(reason, Reason::Protocol(_))).await;
}

#[tokio::test]
async fn denied_command_shows_until_granted() {
    let log = Log::new();
    let server = RedisServer::start();
    let rules = acl::rules();
    let without_set: Vec<_> = rules.iter().copied().filter(|rule| *rule != "+set").collect();
    server.set_rules(&without_set);
    let builder = patient([server.url()]).spawner(LoggedSpawner::start(&log));
    let redlock = builder.build().unwrap();
    all_vote(&redlock).await;
    refused(&redlock).await;
    refuses(&redlock, |reason| matches!(reason, Reason::NoPermission(_))).await;
    log.wait_for("WARN", &["node refuses", "permission denied"]).await;
    server.set_rules(&rules);
    all_vote(&redlock).await;
    log.wait_for("INFO", &["node no longer refuses"]).await;
    works(&redlock).await;

    eventually_async("no permission is missing", async || redlock.health()[0].denied.is_empty())
        .await;
}

#[tokio::test]
async fn command_denied_later_shows() {
    let server = RedisServer::start();
    let redlock = manager([server.url()]);
    works(&redlock).await;
    server.set_rules(&["on", ">s3cret", "~redlock:*", "+@all", "-set"]);
    // At first, the vote that counted outweighs refusals.
    eventually_async("a later refusal shows", async || {
        refused(&redlock).await;
        !redlock.health()[0].is_voting()
    })
    .await;
    refuses(&redlock, |reason| matches!(reason, Reason::NoPermission(_))).await;
}

#[tokio::test]
async fn denied_name_affects_no_other() {
    let server = RedisServer::start();
    let keys = ["~redlock:meta", "~redlock:fences*", "~redlock:lock:ok"];
    server.set_rules(&[&["on", ">s3cret", "+@all"], &keys[..]].concat());
    let redlock = manager([server.url()]);
    all_vote(&redlock).await;

    for _ in 0..20 {
        let begun = Instant::now();
        in_time(async { redlock.lock("ok").await }).await.unwrap().release().await.unwrap();
        refused(&redlock).await;
        let is_voting = redlock.health()[0].is_voting();
        assert!(is_voting || begun.elapsed() >= Duration::from_secs(1), "{:?}", redlock.health());
    }
}

#[tokio::test]
async fn held_name_is_not_a_refusal() {
    let server = RedisServer::start();
    let (redlock, other) = (manager([server.url()]), manager([server.url()]));
    all_vote(&redlock).await;
    let held = in_time(async { redlock.lock("x").await }).await.unwrap();
    let refused = in_time(async { other.lock("x").await }).await;
    assert!(matches!(refused, Err(LockError::Held { .. })), "{refused:?}");
    assert!(other.health()[0].is_voting());
    drop(held);
}

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
