//! A list of servers that was shifted by one place (R14).

use tower_redlock::{Redlock, error::Reason};

use crate::fixture::{
    RedisServer, all_vote, eventually_async,
    guard::{MAX_TTL, guarded, quick, refusal, taken},
    in_time,
};

/// A client whose nodes are named `node-1`, `node-2` and `node-3` by their places in the list.
fn by_position(servers: &[RedisServer]) -> Redlock {
    guarded(quick(), servers.iter().map(RedisServer::url)).build().unwrap()
}

/// A client whose nodes have the default names.
fn by_address(servers: &[RedisServer]) -> Redlock {
    quick().nodes(servers.iter().map(RedisServer::url)).build().unwrap()
}

#[tokio::test]
async fn default_names_refuse_the_shifted_list() {
    let servers = RedisServer::start_n(4);
    let former = by_address(&servers[1..]);
    all_vote(&former).await;
    let held = taken(&former, "x").await;
    let shifted = by_address(&servers[..3]);
    for node in [1, 2] {
        assert!(matches!(refusal(&shifted, node).await, Reason::OtherLayout { .. }));
    }
    let next = in_time(async { shifted.lock("x").wait(MAX_TTL * 3).await }).await;
    assert!(next.is_err(), "two clients hold the lock");
    held.extend().await.unwrap();
}

#[tokio::test]
async fn shifted_positions_serve_after_former_clients() {
    let servers = RedisServer::start_n(4);
    let former = by_position(&servers[1..]);
    all_vote(&former).await;
    let held = taken(&former, "x").await;
    let token = held.fencing_token();
    held.release().await.unwrap();
    former.shutdown().await;
    drop(former);

    let shifted = by_position(&servers[..3]);
    let next = taken(&shifted, "x").await;

    assert!(next.fencing_token() > token, "the fences of two servers of three were kept");
}

/// Both may hold a lock while both lists are in use. They are told, and the tokens are in order.
#[tokio::test]
async fn shifted_positions_are_reported_to_both_lists() {
    let servers = RedisServer::start_n(4);
    let former = by_position(&servers[1..]);
    all_vote(&former).await;
    let held = taken(&former, "x").await;
    let shifted = by_position(&servers[..3]);
    let is_told = |redlock: &Redlock| {
        let health = redlock.health();
        health.iter().any(|node| node.to_string().contains("another server was enrolled under"))
    };

    let next = in_time(async { shifted.lock("x").wait(MAX_TTL * 3).await }).await;

    eventually_async("a client is told", async || is_told(&former) || is_told(&shifted)).await;
    if let Ok(next) = next {
        assert!(next.fencing_token() > held.fencing_token());
    }
}
