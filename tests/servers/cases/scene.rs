//! Servers, each behind a proxy, and managers over them.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_redlock::{
    Redlock, RedlockBuilder,
    error::{Reason, VoteOutcome, Votes},
    node::NodeHealth,
};

use crate::support::{Proxy, RedisServer, eventually_async, over};

/// Longer than any test: keys that disappear within it were released.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// Maximum time between the loss of a lock and the end of its validity.
pub(crate) const LONGEST_LEAD: Duration = Duration::from_millis(22);

pub(crate) struct Scene {
    pub(crate) servers: Vec<RedisServer>,
    pub(crate) proxies: Vec<Proxy>,
}

impl Scene {
    pub(crate) fn new(count: usize) -> Self {
        let servers = RedisServer::start_n(count);
        let proxies = servers.iter().map(|server| Proxy::start(server.addr())).collect();
        Self { servers, proxies }
    }

    /// A manager connected directly to the servers.
    pub(crate) async fn direct(&self, builder: RedlockBuilder) -> Redlock {
        connected(over(builder, self.servers.iter().map(RedisServer::url))).await
    }

    /// A manager connected through the proxies.
    pub(crate) async fn proxied(&self, builder: RedlockBuilder) -> Redlock {
        connected(over(builder, self.proxies.iter().map(Proxy::url))).await
    }

    /// Number of lock keys on each server.
    pub(crate) fn key_counts(&self) -> Vec<usize> {
        self.servers.iter().map(|server| server.keys("redlock:lock:*").len()).collect()
    }

    pub(crate) async fn all_keys_gone(&self) {
        eventually_async("no server keeps a lock key", async || {
            self.key_counts().iter().all(|count| *count == 0)
        })
        .await;
    }

    pub(crate) async fn keys_everywhere(&self) {
        eventually_async("every server keeps a lock key", async || {
            self.key_counts().iter().all(|count| *count > 0)
        })
        .await;
    }

    /// The remaining TTLs of the key of `name`, in ms.
    pub(crate) fn pttls(&self, name: &str) -> Vec<i64> {
        self.servers.iter().map(|server| server.pttl(&key(name))).collect()
    }
}

/// The key of a lock with the default prefix.
pub(crate) fn key(name: &str) -> String {
    format!("redlock:lock:{name}")
}

/// Settings with timeouts and TTLs longer than any delay of a busy machine.
pub(crate) fn patient() -> RedlockBuilder {
    Redlock::builder().ttl(LONG).node_timeout(Duration::from_secs(3))
}

/// Settings with the default node timeout, under which nothing expires.
pub(crate) fn brisk() -> RedlockBuilder {
    Redlock::builder().ttl(LONG)
}

pub(crate) async fn connected(builder: RedlockBuilder) -> Redlock {
    let redlock = builder.build().expect("valid settings");
    all_vote(&redlock).await;
    redlock
}

pub(crate) async fn all_vote(redlock: &Redlock) {
    eventually_async("every node votes", async || {
        redlock.health().iter().all(NodeHealth::is_voting)
    })
    .await;
}

/// One poll, with a waker that does nothing.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Why the votes did not count; panics at a vote that did.
#[track_caller]
pub(crate) fn reasons(votes: &Votes) -> Vec<Reason> {
    votes
        .iter()
        .map(|vote| match &vote.outcome {
            VoteOutcome::NotCounted(reason) => reason.clone(),
            other => panic!("{} has {other:?}", vote.node),
        })
        .collect()
}
