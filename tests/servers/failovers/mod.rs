//! Nodes whose server is located by Sentinels or by a Cluster, and failovers of that server.

#[cfg(feature = "tls")]
mod access;
mod cluster;
mod isolated;
mod names;
mod sentinel;
#[cfg(feature = "tls")]
mod tls_sides;

use std::time::{Duration, Instant};

use tower_redlock::{Redlock, error::Reason, node::NodeState};

use crate::fixture::{RedisServer, eventually_async};

/// Index of the node that may fail over; the others are fixed.
const NAMED: usize = 0;

/// The URLs of a set: one that leads to the current master, and two fixed servers.
fn set_of(named: String, fixed: &[RedisServer]) -> Vec<String> {
    std::iter::once(named).chain(fixed.iter().map(RedisServer::plain_url)).collect()
}

/// Waits until the node is connected to a server with this run id, and returns the time that took.
async fn leads_to(redlock: &Redlock, server: &RedisServer) -> Duration {
    let run_id = server.info("server", "run_id");
    let begun = Instant::now();
    eventually_async("the node is the new server", async || {
        let health = &redlock.health()[NAMED];
        health.run_id.as_deref() == run_id.as_deref()
            && health.address.as_deref() == Some(&*server.addr().to_string())
            && !matches!(health.state, NodeState::Down { .. } | NodeState::Connecting)
    })
    .await;
    begun.elapsed()
}

/// Returns the reason for which the node is down.
fn down_for(redlock: &Redlock) -> Option<Reason> {
    match &redlock.health()[NAMED].state {
        NodeState::Down { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}
