//! A majority is silent during a renewal.

use std::time::{Duration, Instant};

use tower_redlock::{Lock, LockError, Redlock};

use crate::fixture::{Fixture, HANG_GUARD, Proxy, RedisServer, eventually_async, poll_once};

const STALL: Duration = Duration::from_millis(700);
const TTL: Duration = Duration::from_secs(12);

/// When the lock's validity ends.
fn end_of(lock: &Lock) -> Instant {
    Instant::now() + lock.remaining()
}

/// Asks for a renewal while two of three nodes are silent, and watches the lock.
async fn survives(
    fixture: &Fixture,
    redlock: &Redlock,
    silence: impl FnOnce(),
    speak_again: impl FnOnce(),
) {
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    silence();
    let mut lost = lock.lost();
    let left = lock.remaining();
    assert!(left + STALL > Duration::from_secs(10), "the setup took too long: {left:?}");
    let before = end_of(&lock);
    let stalled = Instant::now();
    let renewal = lock.extend().await;
    assert!(matches!(renewal, Err(LockError::NoQuorum { .. })), "{renewal:?}");
    while stalled.elapsed() < STALL {
        assert!(lock.is_valid() && poll_once(&mut lost).is_pending());
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
        let unrenewed = TTL.saturating_sub(stalled.elapsed()).as_millis();
        let outlasts = |left: &&i64| u128::try_from(**left).is_ok_and(|left| left > unrenewed);
        fixture.pttls("x").iter().filter(outlasts).count() >= 2
    })
    .await;
    assert!(poll_once(&mut lost).is_pending());
    drop(lock);
    fixture.all_keys_gone().await;
}

#[tokio::test]
async fn lock_survives_silent_majority() {
    let fixture = Fixture::new(3);
    let (links, servers) = (&fixture.proxies[1..], &fixture.servers[1..]);
    let redlock = fixture.proxied(Redlock::builder().ttl(TTL)).await;
    let stall = || links.iter().for_each(Proxy::stall);
    survives(&fixture, &redlock, stall, || links.iter().for_each(Proxy::resume)).await;

    let redlock = fixture.direct(Redlock::builder().ttl(TTL)).await;
    let freeze = || servers.iter().for_each(RedisServer::freeze);
    survives(&fixture, &redlock, freeze, || servers.iter().for_each(RedisServer::thaw)).await;
}
