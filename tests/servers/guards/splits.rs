//! Changes that must not split one fleet into two sets with a majority each.

use tower_redlock::{Redlock, RedlockBuilder, error::Reason};

use super::scene::{MAX_TTL, all_vote, in_time, quick, refusal, tag, taken};
use crate::support::{Proxy, RedisServer};

fn set(urls: impl IntoIterator<Item = String>) -> Redlock {
    quick().nodes(urls).build().unwrap()
}

fn name(server: &RedisServer) -> String {
    format!("{}/0", server.addr())
}

fn named(nodes: &[(String, String)]) -> Redlock {
    let add = |builder: RedlockBuilder, (name, url): &(String, String)| {
        builder.named_node(name.clone(), url)
    };
    nodes.iter().fold(quick(), add).build().unwrap()
}

/// Two of three servers are replaced by blank ones before an adoption.
#[tokio::test]
async fn hidden_foreign_node_blocks_new_set() {
    let servers = RedisServer::start_n(5);
    let old = set((0..3).map(|i| servers[i].url()));
    all_vote(&old).await;
    let held = taken(&old, "x").await;
    let way = Proxy::start(servers[2].addr());

    let new = named(&[
        (name(&servers[2]), way.url()),
        (name(&servers[3]), servers[3].url()),
        (name(&servers[4]), servers[4].url()),
    ]);

    assert!(matches!(refusal(&new, 0).await, Reason::OtherLayout { .. }));

    let next = in_time(async { new.lock("x").wait(MAX_TTL * 3).await }).await;
    assert!(next.is_err(), "two clients hold the lock");

    way.cut();
    let next = in_time(async { new.lock("x").wait(MAX_TTL * 3).await }).await;
    assert!(held.is_valid());
    assert!(next.is_err(), "two clients hold the lock");
}

/// One server becomes three; a client of the old configuration still runs when the first one loses
/// its data.
#[tokio::test]
async fn old_client_takes_no_blank_node() {
    let servers = RedisServer::start_n(3);
    let old = set([servers[0].url()]);
    all_vote(&old).await;
    let way = Proxy::start(servers[0].addr());
    let new = named(&[
        (name(&servers[0]), way.url()),
        (name(&servers[1]), servers[1].url()),
        (name(&servers[2]), servers[2].url()),
    ]);
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
