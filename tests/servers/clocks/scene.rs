//! Servers whose clocks are set by the test, and managers that write to a log.

use std::{thread, time::Duration};

use tower_redlock::{
    LockError, Redlock, RedlockBuilder,
    error::{Reason, VoteOutcome},
    node::{NodeHealth, NodeState},
};

use crate::failures::log::{Log, LoggedSpawner};
use crate::support::{HANG_GUARD, RedisServer, eventually_async, over};

/// Longer than any test: what disappears within it did not expire.
pub(super) const LONG: Duration = Duration::from_secs(60);
/// The key of the lock on "a".
pub(super) const KEY: &str = "redlock:lock:a";
/// Longer than any lease, in seconds.
pub(super) const MINUTES: f64 = 300.0;

pub(super) struct Scene {
    pub(super) servers: Vec<RedisServer>,
    pub(super) log: Log,
}

impl Scene {
    /// Three servers with clocks of their own.
    pub(super) fn new() -> Self {
        let servers = thread::scope(|scope| {
            let start = || scope.spawn(|| RedisServer::with_clock(&[]));
            let starting = [start(), start(), start()];
            starting.map(|server| server.join().expect("the server starts"))
        });
        Self { servers: servers.into(), log: Log::new() }
    }

    /// A manager whose nodes all vote.
    pub(super) async fn manager(&self, builder: RedlockBuilder) -> Redlock {
        let redlock = self.unready(builder);
        eventually_async("every node votes", async || {
            redlock.health().iter().all(NodeHealth::is_voting)
        })
        .await;
        redlock
    }

    pub(super) fn unready(&self, builder: RedlockBuilder) -> Redlock {
        let spawner = LoggedSpawner::start(&self.log);
        over(builder, self.servers.iter().map(RedisServer::url)).spawner(spawner).build().unwrap()
    }

    /// Whether each server has the key of the lock on "a".
    pub(super) fn keys(&self) -> Vec<bool> {
        self.servers.iter().map(|server| server.exists(KEY)).collect()
    }

    /// Moves a server's clock forward and back, so that its keys expire.
    pub(super) fn blink(&self, server: usize) {
        self.servers[server].set_clock_offset(MINUTES);
        assert!(self.servers[server].cli(&["TTL", KEY]).int() != 0);
        self.servers[server].set_clock_offset(0.0);
    }

    pub(super) async fn is_down(&self, redlock: &Redlock, node: usize) {
        eventually_async("the node is down", async || {
            matches!(redlock.health()[node].state, NodeState::Down { .. })
        })
        .await;
    }
}

/// Settings with timeouts and TTLs longer than any delay of a busy machine.
pub(super) fn patient() -> RedlockBuilder {
    Redlock::builder().ttl(LONG).node_timeout(Duration::from_secs(3))
}

/// The reason why the node has no vote, if it reports one.
pub(super) fn refusal(redlock: &Redlock, node: usize) -> Option<Reason> {
    match &redlock.health()[node].state {
        NodeState::Refusing { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}

pub(super) fn is_jump(reason: &Reason) -> bool {
    matches!(reason, Reason::ClockJumped { .. })
}

/// Waits until the jump of a node's clock is seen.
pub(super) async fn jump_is_seen(redlock: &Redlock, node: usize) {
    eventually_async("the jump is seen", async || {
        refusal(redlock, node).as_ref().is_some_and(is_jump)
    })
    .await;
}

/// The votes of an attempt that finds no quorum.
pub(super) async fn vote(redlock: &Redlock, node: usize) -> VoteOutcome {
    match in_time(async { redlock.lock("a").await }).await {
        Err(LockError::NoQuorum { votes }) => votes[node].outcome.clone(),
        other => panic!("expected NoQuorum, got {other:?}"),
    }
}

/// Panics if `work` does not end in time.
pub(super) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG_GUARD, work).await.expect("it ends in time")
}
