//! A client of each kind, and the servers between them.

use std::time::Duration;

use rslock::LockManager;
use tower_redlock::Redlock;

use crate::support::{Proxy, RedisServer, Resp, ServerFixture, all_vote};

/// The name that all clients lock.
pub(crate) const NAME: &str = "x";

/// The TTL of locks that run out during a test.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// Locks by hand: `SET x … NX PX`. Returns whether the lock was granted.
pub(crate) fn set_nx_px(server: &RedisServer, ttl: Duration) -> bool {
    let ttl = ttl.as_millis().to_string();
    matches!(server.cli(&["SET", NAME, "nonce", "NX", "PX", &ttl]), Resp::Simple(_))
}

/// Returns a manager of rslock that makes one attempt.
pub(crate) fn rslock(urls: impl IntoIterator<Item = String>) -> LockManager {
    let mut manager = LockManager::new(urls.into_iter().collect());
    manager.set_retry(1, Duration::from_millis(1));
    manager
}

/// Returns a manager of this crate with its default guard over the first servers.
pub(crate) fn redlock(urls: impl IntoIterator<Item = String>) -> Redlock {
    of_servers(urls.into_iter().enumerate())
}

/// Does the same over servers with numbers, which name them: both paths to a server have one name.
pub(crate) fn of_servers(numbered: impl IntoIterator<Item = (usize, String)>) -> Redlock {
    let builder = Redlock::builder().ttl(SHORT).node_timeout(Duration::from_millis(200));
    let named = numbered.into_iter().fold(builder, |builder, (number, url)| {
        builder.named_node(format!("server-{number}"), url)
    });
    named.build().expect("valid settings")
}

/// Three servers, the third of which one client does not reach, so that its locks are kept by the first two alone.
pub(crate) struct BareMajority {
    pub(crate) servers: Vec<RedisServer>,
    proxies: Vec<Proxy>,
}

impl BareMajority {
    /// Starts three servers, and `further` ones.
    pub(crate) fn new(further: usize) -> Self {
        let ServerFixture { servers, proxies } = ServerFixture::new(3 + further);
        Self { servers, proxies }
    }

    /// Returns the URLs of the client that will not reach the third server.
    pub(crate) fn urls_of_first(&self) -> Vec<String> {
        self.proxies[..3].iter().map(|proxy| format!("redis://{}", proxy.addr())).collect()
    }

    /// Returns the URLs of all servers, directly.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::plain_url).collect()
    }

    /// Cuts the first client off the third server.
    pub(crate) fn cut_third(&self) {
        self.proxies[2].cut();
    }
}

/// Waits until all nodes of both managers vote.
pub(crate) async fn both_vote(first: &Redlock, second: &Redlock) {
    all_vote(first).await;
    all_vote(second).await;
}
