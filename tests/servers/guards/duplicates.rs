//! One server under two names, which would vote twice.

use tokio::net::{TcpListener, TcpStream};
use tower_redlock::{
    LockError, Redlock,
    error::Reason,
    node::{NodeState, redis::RestartGuard},
};

use crate::fixture::{
    Proxy, RedisServer, all_vote, eventually_async,
    guard::{MAX_TTL, guarded, named, quick, reason, refusal, refused, taken, votes, works},
    in_time, over, unused_port, urls,
};

const GUARDS: [RestartGuard; 2] = [RestartGuard::Probation, RestartGuard::Off];

fn over_with(guard: RestartGuard, urls: Vec<String>) -> Redlock {
    over(quick(), urls).restart_guard(guard).build().unwrap()
}

fn same_as(other: &str) -> Reason {
    Reason::SameServer { other: other.into() }
}

#[tokio::test]
async fn server_listed_twice_never_votes() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let another_way = [
        server.url_by_name(),
        format!("{}/1", server.url_by_name()),
        proxy.url(),
        format!("{}/7", proxy.url()),
    ];

    for guard in GUARDS {
        for way in &another_way {
            let other = RedisServer::start();
            server.cli(&["FLUSHALL"]);
            let urls = vec![server.url(), other.url(), way.clone()];
            let redlock = over_with(guard, urls);
            assert_eq!(refusal(&redlock, 0).await, same_as("node-3"));
            assert_eq!(refusal(&redlock, 2).await, same_as("node-1"));
            let votes = refused(&redlock, "x").await;
            assert_eq!(reason(&votes, 0), same_as("node-3"));
            assert_eq!(reason(&votes, 2), same_as("node-1"));
            let text = votes.to_string();
            assert!(text.contains("node-1: is the same server as node-3"), "{text}");
            assert!(!server.exists("redlock:lock:x"), "no acquire was sent");
        }
    }
}

#[tokio::test]
async fn remaining_nodes_suffice() {
    for guard in GUARDS {
        let servers = RedisServer::start_n(4);
        let mut urls = urls(&servers);
        urls.push(servers[0].url_by_name());
        let redlock = over_with(guard, urls);
        assert_eq!(refusal(&redlock, 4).await, same_as("node-1"));
        let lock = taken(&redlock, "x").await;
        assert!(!servers[0].exists("redlock:lock:x"));
        lock.release().await.unwrap();
    }
}

#[tokio::test]
async fn late_duplicate_bars_both_names() {
    for guard in GUARDS {
        let servers = RedisServer::start_n(2);
        let proxy = Proxy::start(servers[0].addr());
        proxy.cut();
        let urls = vec![servers[0].url(), servers[1].url(), proxy.url()];
        let redlock = over_with(guard, urls);
        in_time(redlock.ready()).await.unwrap();
        works(&redlock).await;
        proxy.heal();
        assert_eq!(refusal(&redlock, 2).await, same_as("node-1"));
        assert_eq!(refusal(&redlock, 0).await, same_as("node-3"));
        let votes = refused(&redlock, "x").await;
        assert_eq!(reason(&votes, 0), same_as("node-3"), "{votes}");
    }
}

/// Requests before the first connection wait for it, and only the connection shows that the
/// server has no vote.
#[tokio::test]
async fn early_request_gets_one_shared_vote() {
    for _ in 0..5 {
        let servers = RedisServer::start_n(1);
        let dead = unused_port();
        let urls = [servers[0].url(), servers[0].url_by_name(), format!("redis://{}", dead.addr())];
        let redlock = over(quick().fencing(false), urls).build().unwrap();
        let error = in_time(async { redlock.lock("x").await }).await.unwrap_err();
        assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    }
}

/// A server is recognized by its run id, which changes with a restart.
#[tokio::test]
async fn redirected_name_votes_again() {
    let mut servers = RedisServer::start_n(3);
    let redlock = guarded(quick(), urls(&servers)).build().unwrap();
    all_vote(&redlock).await;
    // All of them restart, one after the other: no two are ever the same.
    for server in &mut servers {
        server.restart();
        all_vote(&redlock).await;
    }

    let fine = |health: tower_redlock::node::NodeHealth| health.state == NodeState::Voting;

    assert!(redlock.health().into_iter().all(fine));
}

/// A node's address leads to another node's server for one of two clients.
#[tokio::test]
async fn shared_server_does_not_renew_twice() {
    let mut servers = RedisServer::start_n(4);
    let way = Proxy::start(servers[2].addr());
    let first =
        named(quick(), [("a", servers[0].url()), ("b", servers[1].url()), ("c", way.url())]);
    all_vote(&first).await;
    let held = taken(&first, "x").await;
    way.cut();
    let (at, to) = (servers[0].addr(), servers[1].addr());
    servers[0].kill();
    let listener = TcpListener::bind(at).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    assert_eq!(refusal(&first, 0).await, same_as("b"));
    let second =
        named(quick(), [("a", servers[3].url()), ("b", servers[1].url()), ("c", servers[2].url())]);
    votes(&second, 0).await;
    let next = in_time(async { second.lock("x").wait(MAX_TTL * 3).await }).await;
    assert!(next.is_err() || !held.is_valid(), "two clients hold the lock");
    eventually_async("the lock ends", async || !held.is_valid()).await;
}

/// A duplicate that is gone does not keep the vote of the node that stayed.
#[tokio::test]
async fn duplicate_that_left_takes_no_vote() {
    let servers = RedisServer::start_n(2);
    let way = Proxy::start(servers[0].addr());
    let redlock =
        named(quick(), [("a", servers[0].url()), ("b", servers[1].url()), ("c", way.url())]);
    assert_eq!(refusal(&redlock, 0).await, same_as("c"));
    way.cut();
    votes(&redlock, 0).await;
    works(&redlock).await;
}
