//! The servers of a story.

use std::time::Duration;

use tower_redlock::{Redlock, RedlockBuilder};

use crate::support::{RedisServer, eventually_async, urls};

/// Also `max_ttl`: how long the servers are in probation at first.
const TTL: Duration = Duration::from_secs(2);
const READY_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct Nodes(Vec<RedisServer>);

impl Nodes {
    /// Three servers, of which a quorum votes.
    pub(crate) async fn servers() -> Self {
        let nodes = Self(RedisServer::start_n(3));
        let redlock = over(nodes.urls()).build().unwrap();
        redlock.ready_within(READY_WITHIN).await.unwrap();
        nodes
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        urls(&self.0)
    }

    /// Waits until no lock key is left: each was released, or has expired after its holder was
    /// killed.
    pub(crate) async fn no_lock_is_left(&self) {
        eventually_async("no lock is left", async || {
            self.0.iter().all(|server| server.keys("*:lock:*").is_empty())
        })
        .await;
    }
}

pub(crate) fn over(urls: impl IntoIterator<Item = String>) -> RedlockBuilder {
    Redlock::builder().nodes(urls).ttl(TTL).node_timeout(TTL / 10)
}
