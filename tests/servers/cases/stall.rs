//! A majority is silent during a renewal.

use std::{
    task::Poll,
    time::{Duration, Instant},
};

use tower_redlock::{Lock, LockError, Redlock};

use super::scene::{Scene, poll_once};
use crate::support::{HANG_GUARD, Proxy, RedisServer, eventually_async};

const STALL: Duration = Duration::from_millis(700);
const TTL: Duration = Duration::from_secs(12);

/// Asks for a renewal while two of three nodes are silent, and watches the lock.
async fn survives(scene: &Scene, lock: Lock, speak_again: impl FnOnce()) {
    let mut lost = lock.lost();
    let left = lock.remaining();
    assert!(left + STALL > Duration::from_secs(10), "the setup took too long: {left:?}");
    let before = end_of(&lock);

    let stalled = Instant::now();
    let renewal = lock.extend().await;
    assert!(matches!(renewal, Err(LockError::NoQuorum { .. })), "{renewal:?}");
    while stalled.elapsed() < STALL {
        assert!(lock.is_valid());
        assert_eq!(poll_once(&mut lost), Poll::Pending);
        // The lock has to stay valid during the silence; this is the sampling interval.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    speak_again();
    // Renewal continues: the deadline and the expiry of the keys advance.
    eventually_async("the deadline advances", async || {
        assert!(lock.is_valid());
        end_of(&lock) > before + STALL / 2
    })
    .await;
    eventually_async("a quorum of keys outlasts the first TTL", async || {
        let unrenewed = TTL.saturating_sub(stalled.elapsed());
        scene.pttls("x").iter().filter(|left| millis(**left) > unrenewed).count() >= 2
    })
    .await;
    assert_eq!(poll_once(&mut lost), Poll::Pending);
    drop(lock);
    scene.all_keys_gone().await;
}

fn millis(pttl: i64) -> Duration {
    Duration::from_millis(u64::try_from(pttl).unwrap_or(0))
}

/// When the lock's validity ends.
fn end_of(lock: &Lock) -> Instant {
    Instant::now() + lock.remaining()
}

async fn held(redlock: &Redlock) -> Lock {
    redlock.lock("x").wait(HANG_GUARD).await.unwrap()
}

#[tokio::test]
async fn lock_survives_two_stalled_links() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(Redlock::builder().ttl(TTL)).await;
    let lock = held(&redlock).await;
    scene.proxies[1..].iter().for_each(Proxy::stall);
    survives(&scene, lock, || scene.proxies.iter().for_each(Proxy::resume)).await;
}

#[tokio::test]
async fn lock_survives_two_frozen_servers() {
    let scene = Scene::new(3);
    let redlock = scene.direct(Redlock::builder().ttl(TTL)).await;
    let lock = held(&redlock).await;
    scene.servers[1..].iter().for_each(RedisServer::freeze);
    survives(&scene, lock, || scene.servers[1..].iter().for_each(RedisServer::thaw)).await;
}
