//! A node in a real Redis Cluster.

use tower_redlock::Redlock;

use crate::fixture::{
    Cluster, Feature, RedisServer, all_vote, eventually_async,
    guard::{guarded, quick, taken, votes, works},
    has,
};

use super::{NAMED, leads_to, set_of};

/// A prefix with a hash tag, so that all keys are in one shard.
const PREFIX: &str = "{redlock}";

fn manager(cluster: &Cluster, fixed: &[RedisServer]) -> Redlock {
    guarded(quick().key_prefix(PREFIX), set_of(cluster.url(), fixed)).build().unwrap()
}

struct Fixture {
    cluster: Cluster,
    fixed: Vec<RedisServer>,
    redlock: Redlock,
    /// The servers of the shard: master and replica.
    shard: (usize, usize),
}

impl Fixture {
    /// Starts it; `None` if servers cannot be a Cluster here.
    async fn start() -> Option<Self> {
        if !has(&[Feature::ClusterPort]) {
            return None;
        }
        let (cluster, fixed) = (Cluster::start(), RedisServer::start_n(2));
        let redlock = manager(&cluster, &fixed);
        all_vote(&redlock).await;
        let shard = cluster.shard_of("{redlock}:meta");
        Some(Self { cluster, fixed, redlock, shard })
    }

    /// After the failover, the node is the former replica.
    async fn continues(&self) {
        let (_, replica) = self.shard;
        eventually_async("the replica is the master", async || self.cluster.is_master(replica))
            .await;
        let took = leads_to(&self.redlock, &self.cluster.servers[replica]).await;
        println!("found {took:?} after the replica's election");
        votes(&self.redlock, NAMED).await;
        works(&self.redlock).await;
    }
}

#[tokio::test]
async fn all_keys_are_on_one_shard() {
    let Some(fixture) = Fixture::start().await else { return };
    let lock = taken(&fixture.redlock, "a").await;
    let (master, replica) = fixture.shard;
    for (at, server) in fixture.cluster.servers.iter().enumerate() {
        let keys = server.keys("*");
        let has = keys.contains(&"{redlock}:lock:a".to_owned());
        assert_eq!(has, at == master || at == replica, "{at}: {keys:?}");
    }
    lock.release().await.unwrap();
}

/// The waiter's mark, the hint and its channel are in one slot.
#[tokio::test]
async fn waiting_process_is_woken() {
    let Some(fixture) = Fixture::start().await else { return };
    let other = manager(&fixture.cluster, &fixture.fixed);
    all_vote(&other).await;
    let lock = taken(&fixture.redlock, "a").await;
    let waiting = tokio::spawn(async move { taken(&other, "a").await.release().await });
    let master = &fixture.cluster.servers[fixture.shard.0];
    let listens = ["PUBSUB", "NUMSUB", "{redlock}:free:a"];
    eventually_async("it waits", async || {
        let is_marked = master.get("{redlock}:lock:a").is_some_and(|value| value.ends_with(b"\n"));
        is_marked && master.cli(&listens).items().pop().is_some_and(|count| count.int() > 0)
    })
    .await;
    lock.release().await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn killed_master_is_replaced() {
    let Some(mut fixture) = Fixture::start().await else { return };
    let lock = taken(&fixture.redlock, "a").await;
    fixture.cluster.servers[fixture.shard.0].kill();
    fixture.continues().await;
    lock.release().await.unwrap();
}

#[tokio::test]
async fn ordered_failover_is_followed() {
    let Some(fixture) = Fixture::start().await else { return };
    let lock = taken(&fixture.redlock, "a").await;
    fixture.cluster.servers[fixture.shard.1].cli(&["CLUSTER", "FAILOVER"]);
    fixture.continues().await;
    lock.release().await.unwrap();
}

#[tokio::test]
async fn migrated_slot_is_followed() {
    let Some(fixture) = Fixture::start().await else { return };
    let lock = taken(&fixture.redlock, "a").await;
    let (from, to) = (fixture.shard.0, (fixture.shard.0 + 1) % 3);
    fixture.cluster.move_slot(fixture.cluster.slot_of("{redlock}:meta"), from, to);
    leads_to(&fixture.redlock, &fixture.cluster.servers[to]).await;
    votes(&fixture.redlock, NAMED).await;
    works(&fixture.redlock).await;

    lock.release().await.unwrap();
}

/// The servers of the shard are queried as well.
#[tokio::test]
async fn hosts_of_the_url_may_go() {
    if !has(&[Feature::ClusterPort]) {
        return;
    }
    let (mut cluster, fixed) = (Cluster::start(), RedisServer::start_n(2));
    let shard = cluster.shard_of("{redlock}:meta");
    let other = (shard.0 + 1) % 3;
    let url = format!("redis+cluster://{}", cluster.servers[other].addr());
    let redlock = guarded(quick().key_prefix(PREFIX), set_of(url, &fixed)).build().unwrap();
    all_vote(&redlock).await;
    cluster.servers[other].kill();
    eventually_async("its replica is the master", async || cluster.is_master(other + 3)).await;
    let fixture = Fixture { cluster, fixed, redlock, shard };
    fixture.cluster.servers[shard.1].cli(&["CLUSTER", "FAILOVER"]);
    fixture.continues().await;
}
