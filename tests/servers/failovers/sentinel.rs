//! A node behind real Sentinels.

use tower_redlock::Redlock;

use crate::fixture::{
    RedisServer, SERVICE, Sentinels, all_vote, eventually_async,
    guard::{guarded, quick, taken, votes, works},
    in_time, over, patient,
};

use super::{NAMED, down_for, leads_to, set_of};

/// Sentinels, two fixed servers, and a manager over a node each.
struct Fixture {
    sentinels: Sentinels,
    fixed: Vec<RedisServer>,
    redlock: Redlock,
}

impl Fixture {
    async fn start() -> Self {
        let (sentinels, fixed) = (Sentinels::start(), RedisServer::start_n(2));
        let redlock = guarded(quick(), set_of(sentinels.url(), &fixed)).build().unwrap();
        all_vote(&redlock).await;
        Self { sentinels, fixed, redlock }
    }

    fn another_manager(&self) -> Redlock {
        guarded(quick(), set_of(self.sentinels.url(), &self.fixed)).build().unwrap()
    }

    /// After the failover, the node is the other server, in a probation, and then it votes.
    async fn continues(&self) {
        self.sentinels.await_master(1);
        let took = leads_to(&self.redlock, &self.sentinels.servers[1]).await;
        println!("found {took:?} after the Sentinels' word");
        votes(&self.redlock, NAMED).await;
        works(&self.redlock).await;
    }
}

#[tokio::test]
async fn killed_master_is_replaced() {
    let mut fixture = Fixture::start().await;
    let lock = taken(&fixture.redlock, "a").await;
    fixture.sentinels.servers[0].kill();
    fixture.continues().await;
    // The other nodes kept it during the failover.
    lock.release().await.unwrap();
}

#[tokio::test]
async fn ordered_failover_is_followed() {
    let fixture = Fixture::start().await;
    let lock = taken(&fixture.redlock, "a").await;
    fixture.sentinels.fail_over();
    fixture.continues().await;
    lock.release().await.unwrap();
}

#[tokio::test]
async fn one_sentinel_is_enough() {
    let mut fixture = Fixture::start().await;
    fixture.sentinels.kill_sentinel();
    fixture.sentinels.kill_sentinel();
    let late = fixture.another_manager();
    all_vote(&late).await;
}

/// The connection to the master stays open while no Sentinel reports its address.
#[tokio::test]
async fn silent_sentinels_end_no_connection() {
    let fixture = Fixture::start().await;
    fixture.sentinels.freeze_sentinels();
    let late = fixture.another_manager();
    eventually_async("the late manager knows why", async || {
        down_for(&late)
            .is_some_and(|reason| reason.to_string().contains("no Sentinel reported its address"))
    })
    .await;
    for _ in 0..20 {
        works(&fixture.redlock).await;
        assert!(fixture.redlock.health()[NAMED].is_voting());
    }
    fixture.sentinels.thaw_sentinels();
    all_vote(&late).await;
}

/// A connection that breaks meanwhile leads to the master's last known address.
#[tokio::test]
async fn silent_sentinels_prevent_no_reconnect() {
    let fixture = Fixture::start().await;
    let [master, _] = &fixture.sentinels.servers;
    fixture.sentinels.freeze_sentinels();
    let late = fixture.another_manager();
    eventually_async("the silence is noticed", async || down_for(&late).is_some()).await;
    master.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    let clients = || master.cli(&["CLIENT", "LIST", "TYPE", "normal"]).text().lines().count();
    // One of the connections is the query's.
    eventually_async("it connects anew", async || clients() > 1).await;
    all_vote(&fixture.redlock).await;
    works(&fixture.redlock).await;
    fixture.sentinels.thaw_sentinels();
}

#[tokio::test]
async fn unknown_service_is_named() {
    let fixture = Fixture::start().await;
    let url = fixture.sentinels.url().replace(SERVICE, "queues");
    let redlock = over(patient(), [url]).build().unwrap();
    eventually_async("the node is down", async || {
        down_for(&redlock)
            .is_some_and(|reason| reason.to_string().contains("it has no master named queues"))
    })
    .await;
}

#[tokio::test]
async fn sentinels_may_require_a_password() {
    let sentinels = Sentinels::with(Some("s3cret"));
    let url = sentinels.url();
    let redlock = over(patient(), [format!("{url}?sentinel_pass=s3cret")]).build().unwrap();
    in_time(all_vote(&redlock)).await;
    let refused = over(patient(), [format!("{url}?sentinel_pass=wr0ng")]).build().unwrap();
    eventually_async("the node is down", async || down_for(&refused).is_some()).await;
    let reason = down_for(&refused).unwrap().to_string();
    assert!(reason.contains("WRONGPASS") && !reason.contains("wr0ng"), "{reason}");
}
