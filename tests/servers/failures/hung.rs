//! Connections that stay open and transfer nothing.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use tower_redlock::node::{Answer, Nonce, Op, Reply};
use tower_redlock::{
    Redlock,
    error::{Reason, VoteOutcome},
};

use crate::fixture::{
    FakeServer, HANG_GUARD, Proxy, Reaction, RedisServer, all_vote, fake,
    faults::{down, lease_with, manager, refused, watchful, works},
    in_time, urls,
};

/// Two reachable servers and one behind a proxy that can hang.
fn behind_a_proxy() -> (Vec<RedisServer>, Proxy, Redlock) {
    let servers = RedisServer::start_n(3);
    let proxy = Proxy::start(servers[2].addr());
    let urls = [servers[0].url(), servers[1].url(), proxy.url()];
    let redlock = watchful(urls);
    (servers, proxy, redlock)
}

#[tokio::test]
async fn hung_connection_is_replaced() {
    let (_servers, proxy, redlock) = behind_a_proxy();
    all_vote(&redlock).await;
    let before = proxy.connections();
    proxy.stall();
    // No requests are sent: the check of an idle connection detects the hang.
    let reason = down(&redlock, 2).await;
    assert!(matches!(reason, Reason::TimedOut | Reason::NotConnected(_)), "{reason}");
    works(&redlock).await;
    proxy.resume();
    all_vote(&redlock).await;
    assert!(proxy.connections() > before, "the hung connection was not replaced");
    works(&redlock).await;
}

#[tokio::test]
async fn node_down_answers_at_once() {
    let (_servers, proxy, redlock) = behind_a_proxy();
    all_vote(&redlock).await;
    proxy.stall();
    down(&redlock, 2).await;

    for _ in 0..100 {
        // The response comes within the call, without waiting.
        let response = answered_within_the_call(&redlock, 2);
        assert!(response.is_some_and(|response| response.is_err()), "no answer within the call");
    }
}

/// The answer of node `i` to a release before `send` has returned.
fn answered_within_the_call(redlock: &Redlock, i: usize) -> Option<Result<Answer, Reason>> {
    let lease = lease_with(Nonce::from_bytes([7; 16]));
    let (answer, answered) = mpsc::channel();
    let reply = Reply::from_fn(move |response| drop(answer.send(response)));
    redlock.nodes()[i].send(Op::Release(lease), reply);
    answered.try_recv().ok()
}

#[tokio::test]
async fn a_hung_minority_costs_no_time() {
    let (_servers, proxy, redlock) = behind_a_proxy();
    all_vote(&redlock).await;
    proxy.stall();
    let started = Instant::now();

    for _ in 0..100 {
        works(&redlock).await;
    }

    // If every lock waited for the node timeout, this would take twenty seconds.
    assert!(started.elapsed() < HANG_GUARD, "{:?}", started.elapsed());
}

#[tokio::test]
async fn unawaited_node_has_not_timed_out() {
    let busy = || fake::greeting(|_| Reaction::error("BUSY Redis is busy running a script"));
    let servers = [busy(), busy(), fake::greeting(|_| Reaction::Silence)];
    let redlock = manager(servers.each_ref().map(FakeServer::url));
    all_vote(&redlock).await;
    let started = Instant::now();
    let votes = refused(&redlock).await;
    // The result was known when two nodes had refused, six seconds before the node timeout.
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    let third = &votes[2].outcome;
    assert_ne!(*third, VoteOutcome::NotCounted(Reason::TimedOut), "{:?}", started.elapsed());
}

#[tokio::test]
async fn hung_servers_commands_are_undone() {
    let (servers, proxy, redlock) = behind_a_proxy();
    all_vote(&redlock).await;
    proxy.stall();
    for i in 0..50 {
        let lock = in_time(async { redlock.lock(format!("n{i}")).await }).await.unwrap();
        drop(lock);
    }
    proxy.resume();
    all_vote(&redlock).await;

    tokio::time::timeout(HANG_GUARD, redlock.shutdown()).await.expect("the shutdown ends");

    for server in &servers {
        assert_eq!(server.keys("redlock:lock:*"), Vec::<String>::new());
    }
}

#[tokio::test]
async fn frozen_greeting_completes_after_thaw() {
    let servers = RedisServer::start_n(3);
    servers[0].freeze();
    let redlock = watchful(urls(&servers));
    in_time(redlock.ready()).await.unwrap();
    works(&redlock).await;
    servers[0].thaw();
    all_vote(&redlock).await;
}
