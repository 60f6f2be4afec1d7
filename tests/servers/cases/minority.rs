//! One node of five is frozen or dead: clients see no difference.

use std::time::{Duration, Instant};

use tower_redlock::Redlock;

use super::scene::{Scene, all_vote, brisk, patient};
use crate::support::{HANG_GUARD, eventually_async};

const CYCLES: u32 = 200;

/// Duration of a fixed number of acquires and releases.
async fn cycles(redlock: &Redlock) -> Duration {
    let started = Instant::now();
    for _ in 0..CYCLES {
        drop(redlock.lock("x").wait(HANG_GUARD).await.unwrap());
    }
    started.elapsed()
}

fn guard(healthy: Duration) -> Duration {
    healthy * 10 + HANG_GUARD / 5
}

#[tokio::test]
async fn one_frozen_node_costs_nothing() {
    let scene = Scene::new(5);
    let redlock = scene.direct(brisk()).await;
    let healthy = cycles(&redlock).await;
    scene.servers[0].freeze();

    let frozen = cycles(&redlock).await;

    assert!(frozen < guard(healthy), "{frozen:?} with a frozen node, {healthy:?} without");

    scene.servers[0].thaw();
    scene.all_keys_gone().await;
    all_vote(&redlock).await;
    let thawed = cycles(&redlock).await;

    assert!(thawed < guard(healthy), "{thawed:?} after the thaw, {healthy:?} before");

    scene.all_keys_gone().await;
}

#[tokio::test]
async fn one_killed_node_costs_nothing() {
    let mut scene = Scene::new(5);
    let redlock = scene.direct(brisk()).await;
    let healthy = cycles(&redlock).await;
    scene.servers[4].kill();

    let killed = cycles(&redlock).await;

    assert!(killed < guard(healthy), "{killed:?} with a dead node, {healthy:?} without");
    assert_eq!(redlock.health().iter().filter(|node| node.is_voting()).count(), 4);

    scene.servers[4].restart();
    all_vote(&redlock).await;
    cycles(&redlock).await;
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn held_lock_survives_lost_minority() {
    let mut scene = Scene::new(5);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    scene.servers[0].kill();
    scene.servers[1].freeze();
    lock.extend().await.expect("the healthy majority renews");
    lock.release().await.unwrap();
    scene.servers[1].thaw();

    eventually_async("the thawed node keeps no key", async || {
        scene.servers[1..].iter().all(|server| server.keys("redlock:lock:*").is_empty())
    })
    .await;
}
