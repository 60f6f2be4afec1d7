//! Managers over servers of a test.

use std::{future::Future, time::Duration};

use tower_redlock::{
    Redlock, RedlockBuilder,
    node::{
        NodeHealth,
        redis::{NodeAddress, RestartGuard},
    },
};

use super::{Proxy, RedisServer, eventually_async, wait::CONDITION_TIMEOUT};

/// Longer than any test runs: keys that disappear before were released.
pub const LONG: Duration = Duration::from_secs(60);

/// A manager over disposable servers: they vote at once, and are named by their order, so that two
/// paths to one server are the same node.
pub fn over<I>(builder: RedlockBuilder, urls: I) -> RedlockBuilder
where
    I: IntoIterator,
    I::Item: Into<NodeAddress>,
{
    let named = |builder: RedlockBuilder, (i, url): (usize, I::Item)| {
        builder.named_node(format!("node-{}", i + 1), url)
    };
    urls.into_iter().enumerate().fold(builder.restart_guard(RestartGuard::Off), named)
}

/// Settings under which nothing times out or expires on a busy machine.
pub fn patient() -> RedlockBuilder {
    Redlock::builder().ttl(LONG).node_timeout(Duration::from_secs(3))
}

pub fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

/// A manager whose nodes all vote.
pub async fn connected(builder: RedlockBuilder) -> Redlock {
    let redlock = builder.build().expect("valid settings");
    all_vote(&redlock).await;
    redlock
}

pub async fn all_vote(redlock: &Redlock) {
    eventually_async("every node votes", async || {
        redlock.health().iter().all(NodeHealth::is_voting)
    })
    .await;
}

/// Panics if the work hangs.
pub async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(CONDITION_TIMEOUT, work).await.expect("the work ends in time")
}

/// Servers, each behind a proxy, and managers over them.
#[derive(Debug)]
pub struct ServerFixture {
    pub servers: Vec<RedisServer>,
    pub proxies: Vec<Proxy>,
}

impl ServerFixture {
    pub fn new(count: usize) -> Self {
        let servers = RedisServer::start_n(count);
        let proxies = servers.iter().map(|server| Proxy::start(server.addr())).collect();
        Self { servers, proxies }
    }

    /// A manager that connects to the servers without the proxies.
    pub async fn direct(&self, builder: RedlockBuilder) -> Redlock {
        connected(over(builder, urls(&self.servers))).await
    }

    /// A manager that connects to the proxies.
    pub async fn proxied(&self, builder: RedlockBuilder) -> Redlock {
        connected(over(builder, self.proxies.iter().map(Proxy::url))).await
    }

    /// The number of lock keys on each server.
    pub fn key_counts(&self) -> Vec<usize> {
        self.servers.iter().map(|server| server.keys("redlock:lock:*").len()).collect()
    }

    pub async fn all_keys_gone(&self) {
        eventually_async("no server keeps a lock key", async || {
            self.key_counts().iter().all(|count| *count == 0)
        })
        .await;
    }

    pub async fn keys_everywhere(&self) {
        eventually_async("every server keeps a lock key", async || {
            self.key_counts().iter().all(|count| *count > 0)
        })
        .await;
    }
}
