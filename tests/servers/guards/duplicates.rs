//! One server under two names: it would vote twice.

use tower_redlock::{LockError, NodeState, Reason, Redlock, RestartGuard};

use super::scene::{
    all_vote, guarded, in_time, quick, reason, refusal, refused, taken, urls, works,
};
use crate::support::{Proxy, RedisServer, over, unused_port};

const GUARDS: [RestartGuard; 2] = [RestartGuard::Quarantine, RestartGuard::Off];

fn over_with(guard: RestartGuard, urls: Vec<String>) -> Redlock {
    over(quick(), urls).restart_guard(guard).build().unwrap()
}

fn same_as(other: &str) -> Reason {
    Reason::SameServer { other: other.into() }
}

#[tokio::test]
async fn one_server_by_two_ways_has_no_vote_by_either() {
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
            let said = refused(&redlock, "x").await;
            assert_eq!(reason(&said, 0), same_as("node-3"));
            assert_eq!(reason(&said, 2), same_as("node-1"));
            let text = said.to_string();
            assert!(text.contains("node-1: is the same server as node-3"), "{text}");
            assert!(!server.exists("redlock:lock:x"), "it was not even asked");
        }
    }
}

#[tokio::test]
async fn the_other_nodes_go_on_where_they_are_enough() {
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
async fn a_duplicate_that_comes_later_takes_the_vote_from_both() {
    for guard in GUARDS {
        let servers = RedisServer::start_n(2);
        let proxy = Proxy::start(servers[0].addr());
        proxy.cut();
        let urls = vec![servers[0].url(), servers[1].url(), proxy.url()];
        let redlock = over_with(guard, urls);
        in_time(redlock.ready()).await;
        works(&redlock).await;
        proxy.heal();
        assert_eq!(refusal(&redlock, 2).await, same_as("node-1"));
        assert_eq!(refusal(&redlock, 0).await, same_as("node-3"));
        let said = refused(&redlock, "x").await;
        assert_eq!(reason(&said, 0), same_as("node-3"), "{said}");
    }
}

/// Requests that come before the first connection wait for it, and it shows only then that the
/// server has no vote.
#[tokio::test]
async fn a_request_that_waited_for_the_connections_gets_one_vote_of_one_server() {
    for _ in 0..20 {
        let servers = RedisServer::start_n(1);
        let dead = unused_port();
        let urls = [servers[0].url(), servers[0].url_by_name(), format!("redis://{}", dead.addr())];
        let redlock = over(quick().fencing(false), urls).build().unwrap();
        let error = in_time(async { redlock.lock("x").await }).await.unwrap_err();
        assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    }
}

/// It is known by its process, which is another after a restart.
#[tokio::test]
async fn a_way_that_is_led_to_another_server_votes_again() {
    let mut servers = RedisServer::start_n(3);
    let redlock = guarded(quick(), urls(&servers)).build().unwrap();
    all_vote(&redlock).await;
    // All of them restart, one after the other: never are two the same.
    for server in &mut servers {
        server.restart();
        all_vote(&redlock).await;
    }
    let fine = |health: tower_redlock::NodeHealth| health.state == NodeState::Voting;
    assert!(redlock.health().into_iter().all(fine));
}
