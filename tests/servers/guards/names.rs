//! One name that leads to two running servers, each with connected clients.

use tower_redlock::{
    Redlock, RedlockBuilder,
    error::Reason,
    node::{NodeHealth, NodeState},
};

use crate::fixture::{
    LONG, Proxy, RedisServer, all_vote, eventually_async,
    guard::{
        MAX_TTL, enrolment, guarded, in_probation, quick, reason, refused, settled, tag, taken,
        votes,
    },
    in_time,
};

/// A client that reaches each server over a link of its own, which can be cut.
struct Client {
    redlock: Redlock,
    links: Vec<Proxy>,
}

impl Client {
    /// `servers` are the owners of the names by its own lookup.
    fn of(servers: [&RedisServer; 3]) -> Self {
        Self::with(quick(), servers)
    }

    fn with(builder: RedlockBuilder, servers: [&RedisServer; 3]) -> Self {
        let links: Vec<_> = servers.iter().map(|server| Proxy::start(server.addr())).collect();
        let redlock = guarded(builder, links.iter().map(Proxy::url)).build().unwrap();
        Self { redlock, links }
    }
}

/// The enrolment of a server under its name.
fn incarnation(of: &RedisServer) -> String {
    let tag = tag(of);
    format!("{} {} {}", &tag[69..77], &tag[2..34], &tag[52..68])
}

/// The owner of a name according to a server.
fn owner(of: &RedisServer, name: &str) -> String {
    of.cli(&["HGET", "redlock:meta", &format!("owner:{name}")]).text()
}

fn is_displaced(health: &NodeHealth) -> bool {
    matches!(
        health.state,
        NodeState::Refusing { reason: Reason::Displaced, .. }
            | NodeState::Down { reason: Reason::Displaced, .. }
    )
}

/// Waits until the second client's server is the owner of the first name, and votes.
async fn moved(old: &RedisServer, new: &RedisServer, rest: [&RedisServer; 2]) -> (Client, Client) {
    moved_with(quick, old, new, rest).await
}

async fn moved_with(
    builder: fn() -> RedlockBuilder,
    old: &RedisServer,
    new: &RedisServer,
    rest: [&RedisServer; 2],
) -> (Client, Client) {
    let before = Client::with(builder(), [old, rest[0], rest[1]]);
    all_vote(&before.redlock).await;
    let after = Client::with(builder(), [new, rest[0], rest[1]]);
    all_vote(&after.redlock).await;
    (before, after)
}

#[tokio::test]
async fn two_servers_make_no_two_holders() {
    let [old, new, b, c] = [(); 4].map(|()| RedisServer::start());
    // The old server claims its name back after one TTL, which is longer than a loaded machine takes.
    let slow = || quick().ttl(4 * MAX_TTL);
    let (before, after) = moved_with(slow, &old, &new, [&b, &c]).await;
    // Two of three names each, and only the first one is in both.
    before.links[2].cut();
    after.links[1].cut();
    let held = taken(&after.redlock, "x").await;

    let votes = refused(&before.redlock, "x").await;

    assert!(held.is_valid());
    // On a busy machine, the old server may have claimed its name back already.
    let why = reason(&votes, 0);
    let is_told = matches!(why, Reason::Displaced | Reason::NamesDiffer | Reason::Probation { .. });
    assert!(is_told, "{why}");
}

#[tokio::test]
async fn held_lock_survives_the_move() {
    let [old, new, b, c] = [(); 4].map(|()| RedisServer::start());
    let before = Client::of([&old, &b, &c]);
    all_vote(&before.redlock).await;
    before.links[2].cut();
    let held = taken(&before.redlock, "x").await;
    let after = Client::of([&new, &b, &c]);
    eventually_async("the newcomer is enrolled", async || in_probation(&after.redlock.health()[0]))
        .await;
    eventually_async("the others store the new owner", async || {
        [&b, &c].iter().all(|server| owner(server, "node-1") == incarnation(&new))
    })
    .await;
    // The lock is renewed on servers that no longer have each other as owners. So it ends before
    // another quorum can grant.
    votes(&after.redlock, 0).await;
    after.links[1].cut();
    let next = after.redlock.lock("x").wait(LONG);
    let next = in_time(async { next.await.unwrap() }).await;
    assert!(!held.is_valid());
    assert!(next.fencing_token() > held.fencing_token());
}

#[tokio::test]
async fn newcomer_without_quorum_never_starts() {
    let [old, new, b, c] = [(); 4].map(|()| RedisServer::start());
    let before = Client::of([&old, &b, &c]);
    all_vote(&before.redlock).await;
    before.links[2].cut();
    let held = taken(&before.redlock, "x").await;
    // This client never reaches the server that grants the lock together with the old one.
    let links = [&new, &b, &c].map(|server| Proxy::start(server.addr()));
    links[1].cut();
    let after = guarded(quick(), links.iter().map(Proxy::url)).build().unwrap();
    eventually_async("it sees a majority of its servers", async || {
        let health = after.health();
        in_probation(&health[0]) && health[2].is_voting()
    })
    .await;
    let next = in_time(async { after.lock("x").wait(MAX_TTL * 4).await }).await;
    assert!(next.is_err(), "two clients hold the lock");
    assert!(held.is_valid());
}

#[tokio::test]
async fn majority_that_stays_goes_on() {
    let [old, new, b, c] = [(); 4].map(|()| RedisServer::start());
    // No operation may fail, so nodes have longer to answer than a loaded machine takes.
    let ttl = 3 * MAX_TTL;
    let patient = || quick().ttl(ttl).node_timeout(ttl / 10);
    let before = Client::with(patient(), [&old, &b, &c]);
    all_vote(&before.redlock).await;
    let held = taken(&before.redlock, "kept").await;
    let _after = Client::with(patient(), [&new, &b, &c]);
    // Each change of a server's owners coincides with operations in progress, and none of them may
    // fail.
    let mut granted = 0;
    let moved = async {
        eventually_async("the old server is displaced", async || {
            is_displaced(&before.redlock.health()[0])
        })
        .await;
    };
    tokio::pin!(moved);
    loop {
        tokio::select! {
            biased;
            () = &mut moved => break,
            lock = before.redlock.lock("y") => {
                lock.unwrap().release().await.unwrap();
                granted += 1;
            }
        }
    }
    assert!(granted > 0);
    // Longer than the validity that it had before the move.
    tokio::time::sleep(ttl).await;
    in_time(async { held.extend().await.unwrap() }).await;
    assert!(held.is_valid());
    held.release().await.unwrap();
}

#[tokio::test]
async fn displaced_server_is_reclaimed_by_name() {
    let [old, new, b, c] = [(); 4].map(|()| RedisServer::start());
    let (before, after) = moved(&old, &new, [&b, &c]).await;
    let first = enrolment(&old);
    eventually_async("the old server is displaced", async || {
        is_displaced(&before.redlock.health()[0])
    })
    .await;
    // No client connects to the newcomer any more.
    drop(after);
    let granted = in_time(async { before.redlock.lock("x").wait(LONG).await.unwrap() }).await;
    votes(&before.redlock, 0).await;
    assert_ne!(enrolment(&old), first, "the server was enrolled anew");
    assert!(granted.is_valid());
    all_vote(&before.redlock).await;
}

#[tokio::test]
async fn restarted_server_is_known_to_others() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;

    for _ in 0..2 {
        let before = incarnation(&servers[0]);
        servers[0].restart();
        eventually_async("the server is in probation", async || in_probation(&redlock.health()[0]))
            .await;
        votes(&redlock, 0).await;
        let own = incarnation(&servers[0]);
        assert!(own > before, "{own} after {before}");
        assert_eq!([owner(&servers[1], "node-1"), owner(&servers[2], "node-1")], [&*own, &*own]);
    }
}
