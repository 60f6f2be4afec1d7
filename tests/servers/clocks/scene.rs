//! Servers whose clocks are set by the test, and managers that write to a log.

use std::thread;

use tower_redlock::{
    LockError, Redlock, RedlockBuilder,
    error::{Reason, VoteOutcome},
    node::NodeState,
};

use crate::failures::log::{Log, LoggedSpawner};
pub(super) use crate::support::{LONG, in_time, patient};
use crate::support::{RedisServer, all_vote, eventually_async, over, urls};

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
        all_vote(&redlock).await;
        redlock
    }

    pub(super) fn unready(&self, builder: RedlockBuilder) -> Redlock {
        let spawner = LoggedSpawner::start(&self.log);
        over(builder, urls(&self.servers)).spawner(spawner).build().unwrap()
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

/// Returns why the node has no vote, if that is known.
pub(super) fn refusal(redlock: &Redlock, node: usize) -> Option<Reason> {
    match &redlock.health()[node].state {
        NodeState::Refusing { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}

pub(super) fn is_jump(reason: &Reason) -> bool {
    matches!(reason, Reason::ClockJumped { .. })
}

/// Waits until the jump of a node's clock is detected.
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
