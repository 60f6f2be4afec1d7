//! Servers whose clocks jump with each reading.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::scene::Unstable;
use crate::{
    failures::fake,
    support::{FakeServer, Reaction},
};

/// Maximum number of readings of three records in a second. Each server has ten health checks, and a reading more for
/// each change of its record.
const MOST_CHECKS: usize = 300;

/// A server whose clock is off by this number of hours at every other reading.
fn jumping(hours: u64) -> FakeServer {
    let greeter = fake::Greeter::new();
    let read = AtomicU64::new(0);
    FakeServer::start(move |command| {
        if command[0] == b"TIME" {
            let off = Duration::from_secs(3_600 * hours)
                * u32::from(read.fetch_add(1, Ordering::SeqCst) % 2 == 1);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + off;
            let parts = [now.as_secs().to_string(), now.subsec_micros().to_string()];
            return Reaction::array(&parts.map(|part| Reaction::bulk(&part)));
        }
        greeter.greet(command).unwrap_or_else(|| fake::granted(command))
    })
}

/// Checks the cost of these servers, and that a node's health contains a text.
async fn costs_little(servers: [FakeServer; 3], reason: &str) {
    let unstable = Unstable::over(servers.each_ref().map(FakeServer::url));
    let checks = || servers.iter().map(|server| server.count("HMGET")).sum();
    let rate = unstable.rate(checks).await;
    let health = unstable.health();
    assert!(rate <= MOST_CHECKS, "{rate} checks per second");
    unstable.logs_little();
    assert!(health.contains(reason), "{health}");
}

/// The effect is the same as a pause of this process by an hour, repeatedly.
#[tokio::test]
async fn clocks_jump_together() {
    costs_little([(); 3].map(|()| jumping(1)), "node-1").await;
}

#[tokio::test]
async fn clocks_jump_separately() {
    costs_little([1, 3, 7].map(jumping), "its clock jumped").await;
}
