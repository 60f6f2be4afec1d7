//! Moves from one set of servers to another.

use std::time::{Duration, Instant};

use tower_redlock::{
    LockError, Redlock,
    error::{AdoptError, Reason, VoteOutcome},
    node::redis::RestartGuard,
};

use crate::fixture::{
    Proxy, RedisServer, all_vote, eventually_async,
    guard::{
        MAX_TTL, fences, guarded, named, quick, reason, refusal, refused, settled, slow, tag,
        taken, works,
    },
    in_time, urls,
};

/// Nodes named by their addresses, as in sets that grow.
fn set(urls: impl IntoIterator<Item = String>) -> Redlock {
    quick().nodes(urls).build().unwrap()
}

fn picked(servers: &[RedisServer], nodes: impl IntoIterator<Item = usize>) -> Vec<String> {
    nodes.into_iter().map(|i| servers[i].url()).collect()
}

/// The default name of a server.
fn name(server: &RedisServer) -> String {
    format!("{}/0", server.addr())
}

/// Moves from the servers 0, 1, 2 to those of `new`, while a client of the old set holds a lock and
/// renews it.
async fn moves(new: &[usize]) {
    let servers = RedisServer::start_n(6);
    let old_urls = picked(&servers, 0..3);
    let holder = set(old_urls.clone());
    all_vote(&holder).await;
    let held = taken(&holder, "x").await;
    let operator = set(old_urls);
    all_vote(&operator).await;
    let client = set(picked(&servers, new.iter().copied()));
    let first = tokio::spawn({
        let client = client.clone();
        async move { taken(&client, "x").await }
    });
    let waiting: Vec<_> = new.iter().filter(|node| **node > 2).collect();
    eventually_async("the new nodes are connected", async || {
        waiting.iter().all(|node| tag(&servers[**node]).starts_with("p "))
    })
    .await;
    assert!(held.is_valid());
    let started = Instant::now();
    let wait = client.adopt(&operator).await.unwrap();
    assert_eq!(wait, MAX_TTL.mul_f64(1.01) + Duration::from_millis(2));
    // The old set can't grant any more, and reports why.
    refused(&holder, "y").await;
    for node in 0..3 {
        assert!(matches!(refusal(&holder, node).await, Reason::OtherLayout { .. }));
    }
    let votes = refused(&holder, "y").await;
    assert!(
        votes.to_string().contains("3 nodes (") && votes.to_string().contains("adopt"),
        "{votes}"
    );
    // It cannot renew either: its lock ends, and only then the new set grants.
    let next = in_time(first).await.unwrap();
    assert!(!held.is_valid(), "two clients hold the lock");
    assert!(started.elapsed() > MAX_TTL, "{:?}", started.elapsed());
    assert!(next.fencing_token() > held.fencing_token());
    all_vote(&client).await;
    let known = &fences(&servers[0]);
    let field = known.keys().next().expect("x has one");
    for node in new {
        assert!(fences(&servers[*node])[field] >= held.fencing_token().get());
    }
    assert_eq!(client.adopt(&client).await, Err(AdoptError::SameLayout));
}

#[tokio::test]
async fn set_moves_to_others() {
    let growing = moves(&[0, 1, 2, 3, 4]);
    tokio::join!(growing, moves(&[3, 4, 5]), moves(&[1]));
}

/// An operator's client of the servers 0, 1, 2, of which it reaches only 0.
async fn cut_off(servers: &[RedisServer]) -> (Redlock, Vec<Proxy>) {
    let proxies: Vec<_> = servers[..3].iter().map(|server| Proxy::start(server.addr())).collect();
    let operator = named(quick(), (0..3).map(|i: usize| (name(&servers[i]), proxies[i].url())));
    all_vote(&operator).await;
    proxies[1].cut();
    proxies[2].cut();
    eventually_async("both servers are down", async || {
        operator.health()[1..].iter().all(|health| !health.is_voting())
    })
    .await;
    (operator, proxies)
}

#[tokio::test]
async fn adoption_short_of_old_nodes_repeats() {
    let servers = RedisServer::start_n(5);
    let holder = set(picked(&servers, 0..3));
    all_vote(&holder).await;
    let (operator, proxies) = cut_off(&servers).await;
    let client = set(picked(&servers, 0..5));
    let held = taken(&holder, "x").await;
    let error = in_time(client.adopt(&operator)).await.unwrap_err();
    let AdoptError::OldSet { needed: 2, votes } = &error else { panic!("{error}") };
    assert_eq!(votes[0].outcome, VoteOutcome::Granted);
    for node in [1, 2] {
        assert!(
            matches!(reason(votes, node), Reason::NotConnected(_) | Reason::Disconnected),
            "{votes}"
        );
    }
    let text = error.to_string();
    assert!(text.contains("the old set can still grant") && text.contains("then retry"), "{text}");
    // The old set continues with its nodes, and the new one does not start.
    let also = taken(&holder, "y").await;
    let error = in_time(async { client.lock("z").wait(MAX_TTL * 3).await }).await.unwrap_err();
    assert!(matches!(error.root(), LockError::NoQuorum { .. }), "{error}");
    assert!(held.is_valid() && also.is_valid());
    proxies[1].heal();
    proxies[2].heal();
    all_vote_but(&operator, 0).await;
    in_time(client.adopt(&operator)).await.unwrap();
    let next = taken(&client, "x").await;
    assert!(!held.is_valid(), "two clients hold the lock");
    assert!(next.fencing_token() > held.fencing_token());
    all_vote(&client).await;
}

async fn all_vote_but(redlock: &Redlock, but: usize) {
    eventually_async("the others vote", async || {
        let health = redlock.health();
        health.iter().enumerate().all(|(node, health)| node == but || health.is_voting())
    })
    .await;
}

/// The moved node and two blank ones are a majority of the new set; the two nodes that were not
/// moved are a majority of the old set.
#[tokio::test]
async fn half_adopted_set_does_not_start() {
    let servers = RedisServer::start_n(5);
    let holder = set(picked(&servers, 0..3));
    all_vote(&holder).await;
    let (operator, _proxies) = cut_off(&servers).await;
    let held = taken(&holder, "x").await;

    let ways: Vec<_> = servers.iter().map(|server| Proxy::start(server.addr())).collect();
    let client = named(quick(), (0..5).map(|i: usize| (name(&servers[i]), ways[i].url())));
    eventually_async("every node is connected", async || {
        client.health().iter().all(|health| health.run_id.is_some())
    })
    .await;
    ways[1].cut();
    ways[2].cut();
    let error = in_time(client.adopt(&operator)).await.unwrap_err();
    assert!(matches!(error, AdoptError::OldSet { .. }), "{error}");
    let next = in_time(async { client.lock("x").wait(MAX_TTL * 4).await }).await;
    assert!(held.is_valid(), "a majority of the old set is unchanged");
    assert!(next.is_err(), "two clients hold the lock");
}

#[tokio::test]
async fn adoption_short_of_new_nodes_repeats() {
    let mut servers = RedisServer::start_n(6);
    let holder = set(picked(&servers, 0..3));
    all_vote(&holder).await;
    servers[4].kill();
    servers[5].kill();
    let client = set(picked(&servers, 3..6));
    let error = in_time(client.adopt(&holder)).await.unwrap_err();
    let AdoptError::NewSet { needed: 2, votes } = &error else { panic!("{error}") };
    assert_eq!(votes[0].outcome, VoteOutcome::Granted, "{votes}");
    assert!(error.to_string().contains("the old set no longer grants"), "{error}");
    servers[4].restart();
    servers[5].restart();
    eventually_async("the new nodes are up", async || {
        client.health().iter().all(|health| {
            matches!(health.state, tower_redlock::node::NodeState::Probation { .. })
                || health.is_voting()
        })
    })
    .await;
    in_time(client.adopt(&holder)).await.unwrap();
    all_vote(&client).await;
    works(&client).await;
}

#[tokio::test]
async fn absent_old_node_is_moved_later() {
    let servers = RedisServer::start_n(5);
    let way = Proxy::start(servers[2].addr());
    let over = |nodes: std::ops::Range<usize>| {
        let url = |i: usize| if i == 2 { way.url() } else { servers[i].url() };
        named(quick(), nodes.map(|i| (name(&servers[i]), url(i))))
    };
    let operator = over(0..3);
    all_vote(&operator).await;
    way.cut();
    let client = over(0..5);
    in_time(client.adopt(&operator)).await.unwrap();
    works(&client).await;
    way.heal();
    assert!(matches!(refusal(&client, 2).await, Reason::OtherLayout { .. }));
    in_time(client.adopt(&operator)).await.unwrap();
    all_vote(&client).await;
    works(&client).await;
}

#[tokio::test]
async fn only_guarded_sets_are_adopted() {
    let servers = RedisServer::start_n(3);
    let guarded = settled(&servers).await;
    let off = quick().nodes(urls(&servers)).restart_guard(RestartGuard::Off).build().unwrap();
    let embedded = Redlock::embedded();
    for (new, old) in
        [(&guarded, &off), (&off, &guarded), (&guarded, &embedded), (&embedded, &guarded)]
    {
        assert_eq!(new.adopt(old).await, Err(AdoptError::NotGuarded));
    }
    let same = settled(&servers).await;
    assert_eq!(same.adopt(&guarded).await, Err(AdoptError::SameLayout));
    assert!(servers.iter().all(|server| tag(server).starts_with("a ")), "no tag was changed");
}

#[tokio::test]
async fn another_prefix_is_adopted() {
    let servers = RedisServer::start_n(3);
    let old = settled(&servers).await;
    let held = taken(&old, "x").await;
    // The default user, who may use another prefix. The client proposes tokens below all others.
    let plain = servers.iter().map(RedisServer::plain_url);
    let builder = quick().key_prefix("other").clock(slow());
    let other = guarded(builder, plain).build().unwrap();
    in_time(other.adopt(&old)).await.unwrap();
    let next = taken(&other, "x").await;
    assert!(!held.is_valid(), "two clients hold the lock");
    assert!(next.fencing_token() > held.fencing_token());
    assert!(matches!(refusal(&old, 0).await, Reason::OtherLayout { .. }));
    all_vote(&other).await;
}

/// The former server of a name that moved, and a server that the operator does not reach, are a
/// majority of the old set; the name's blank server does not stop it.
#[tokio::test]
async fn blank_server_does_not_stand_in() {
    let [former, blank, b, c] = [(); 4].map(|()| RedisServer::start());
    let holder = guarded(quick(), [former.url(), b.url(), c.url()]).build().unwrap();
    all_vote(&holder).await;
    let _held = taken(&holder, "x").await;
    let way = Proxy::start(c.addr());
    way.cut();
    let reached = || [blank.url(), b.url(), way.url()];
    let operator = guarded(quick(), reached()).build().unwrap();
    let client = named(quick(), ["x", "y", "z"].into_iter().zip(reached()));
    let adopted = in_time(client.adopt(&operator)).await;

    let next = in_time(async { client.lock("x").wait(MAX_TTL * 4).await }).await;

    assert!(next.is_err(), "two clients may hold the lock: {} {}", tag(&blank), tag(&b));
    assert!(matches!(adopted, Err(AdoptError::OldSet { needed: 2, .. })), "{adopted:?}");
}

/// Two of three servers are replaced by blank ones without an adoption, and the third is then cut off.
#[tokio::test]
async fn hidden_foreign_node_blocks_new_set() {
    let servers = RedisServer::start_n(5);
    let old = set(picked(&servers, 0..3));
    all_vote(&old).await;
    let held = taken(&old, "x").await;
    let way = Proxy::start(servers[2].addr());
    let urls = [way.url(), servers[3].url(), servers[4].url()];
    let new = named(quick(), servers[2..].iter().map(name).zip(urls));
    assert!(matches!(refusal(&new, 0).await, Reason::OtherLayout { .. }));
    let next = in_time(async { new.lock("x").wait(MAX_TTL * 3).await }).await;
    assert!(next.is_err(), "two clients hold the lock: the third server is in sight");
    way.cut();
    let next = in_time(async { new.lock("x").wait(MAX_TTL * 3).await }).await;
    assert!(held.is_valid(), "a quorum of the old set is unchanged");
    assert!(next.is_err(), "two clients hold the lock: the third server is cut off");
}

/// One server becomes three; a client of the old configuration still runs when the first one loses
/// its data.
#[tokio::test]
async fn old_client_takes_no_blank_node() {
    let servers = RedisServer::start_n(3);
    let old = set([servers[0].url()]);
    all_vote(&old).await;
    let way = Proxy::start(servers[0].addr());
    let urls = [way.url(), servers[1].url(), servers[2].url()];
    let new = named(quick(), servers.iter().map(name).zip(urls));
    in_time(new.adopt(&old)).await.unwrap();
    all_vote(&new).await;
    let held = taken(&new, "x").await;
    assert!(matches!(refusal(&old, 0).await, Reason::OtherLayout { .. }));
    way.cut();
    servers[0].cli(&["FLUSHALL"]);
    let next = in_time(async { old.lock("x").wait(MAX_TTL * 4).await }).await;
    assert!(held.is_valid());
    assert!(next.is_err(), "two clients hold the lock; tag {}", tag(&servers[0]));
}
