//! Hundreds of locks while one of five nodes is frozen or dead.

use std::time::{Duration, Instant};

use tower_redlock::Redlock;

use crate::fixture::{Fixture, HANG_GUARD, all_vote, brisk};

const CYCLES: u32 = 200;

/// Duration of a fixed number of acquires and releases.
async fn cycles(redlock: &Redlock) -> Duration {
    let started = Instant::now();
    for _ in 0..CYCLES {
        drop(redlock.lock("x").wait(HANG_GUARD).await.unwrap());
    }
    started.elapsed()
}

#[tokio::test]
async fn one_frozen_node_costs_nothing() {
    let mut fixture = Fixture::new(5);
    let redlock = fixture.direct(brisk()).await;
    let healthy = cycles(&redlock).await;
    let assert_as_fast = |took: Duration, what: &str| {
        // If each lock waited for the node, it would be more.
        assert!(took < healthy * 10 + HANG_GUARD / 5, "{took:?} {what}, {healthy:?} before");
    };
    fixture.servers[0].freeze();
    assert_as_fast(cycles(&redlock).await, "with a frozen node");
    fixture.servers[0].thaw();
    fixture.all_keys_gone().await;
    all_vote(&redlock).await;
    assert_as_fast(cycles(&redlock).await, "after the thaw");

    fixture.servers[4].kill();
    assert_as_fast(cycles(&redlock).await, "with a dead node");
    assert_eq!(redlock.health().iter().filter(|node| node.is_voting()).count(), 4);
    fixture.servers[4].restart();
    all_vote(&redlock).await;
    cycles(&redlock).await;
    fixture.all_keys_gone().await;
}
