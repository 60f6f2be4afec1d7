//! The end of a lock, with and without renewals.

use std::{
    task::Poll,
    time::{Duration, Instant},
};

use tower_redlock::{LockError, Redlock, error::LossCause};

use super::scene::{LONG, LONGEST_LEAD, Scene, key, patient, poll_once};
use crate::support::{HANG_GUARD, eventually};

const TTL: Duration = Duration::from_secs(1);

#[tokio::test]
async fn lock_outlives_three_ttls() {
    let scene = Scene::new(3);
    // A loaded machine may take a second between two renewals.
    let ttl = TTL * 3;
    let redlock = scene.direct(Redlock::builder().ttl(ttl)).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    let token = lock.fencing_token();
    scene.keys_everywhere().await;
    let started = Instant::now();

    while started.elapsed() < ttl * 3 {
        let pttls = scene.pttls("x");
        assert!(pttls.iter().all(|left| *left > 0), "{pttls:?}");
        assert!(lock.is_valid());
        // The keys have to be renewed for three TTLs of the servers; this is the sampling interval.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    assert_eq!(poll_once(&mut lock.lost()), Poll::Pending);
    assert_eq!(lock.fencing_token(), token);

    drop(lock);
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn unrenewed_lock_is_lost_early() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    let request = redlock.lock("x").ttl(TTL).auto_extend(false).wait(HANG_GUARD);
    let lock = request.await.unwrap();
    let asked = Instant::now();

    let left = lock.remaining();

    assert!(left <= TTL + Duration::from_secs(5));

    let cause = tokio::time::timeout(HANG_GUARD, lock.lost()).await.expect("the lock is lost");
    assert!(matches!(cause, LossCause::Expired { .. }), "{cause:?}");

    let held = asked.elapsed();
    assert!(held + LONGEST_LEAD >= left, "{held:?} of {left:?}");

    let after = lock.extend().await;
    assert!(matches!(after, Err(LockError::Lost { .. })), "a lost lock stays lost: {after:?}");
}

#[tokio::test]
async fn unrenewed_lock_can_be_extended() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").auto_extend(false).await.unwrap();

    scene.keys_everywhere().await;

    for server in &scene.servers {
        assert_eq!(server.cli(&["PEXPIRE", &key("x"), "20000"]).int(), 1);
    }

    let before = Instant::now();
    let left = lock.extend().await.unwrap();
    assert!(left + HANG_GUARD > LONG, "{left:?}");
    assert!(Instant::now() + lock.remaining() >= before + left);

    eventually("every key has a full TTL again", || {
        scene.pttls("x").iter().all(|left| *left > 40_000)
    });
}

#[tokio::test]
async fn max_hold_beats_successful_renewals() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    let limit = Duration::from_millis(300);
    let before = Instant::now();
    let lock = redlock.lock("x").max_hold(limit).await.unwrap();

    let after = Instant::now();

    assert!(lock.remaining() <= limit);

    let cause = tokio::time::timeout(HANG_GUARD, lock.lost()).await.expect("the lock is lost");
    assert_eq!(cause, LossCause::MaxHold { limit });
    assert!(before.elapsed() + LONGEST_LEAD >= limit && after.elapsed() < HANG_GUARD);
    assert!(!lock.is_valid());

    drop(lock);
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn long_max_hold_stops_renewals() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    let limit = TTL * 2;
    let request = redlock.lock("x").ttl(TTL).max_hold(limit).wait(HANG_GUARD);
    let before = Instant::now();
    let lock = request.await.unwrap();

    let cause = tokio::time::timeout(HANG_GUARD, lock.lost()).await.expect("the lock is lost");

    assert_eq!(cause, LossCause::MaxHold { limit });
    assert!(before.elapsed() + LONGEST_LEAD >= limit);

    // The holder keeps the lock, and blocks others for at most a TTL.
    scene.all_keys_gone().await;
    drop(lock);
}

#[tokio::test]
async fn nodes_regain_a_lost_key() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    scene.servers.iter().for_each(|server| assert_eq!(server.cli(&["DEL", &key("x")]).int(), 1));
    lock.extend().await.unwrap();
    scene.keys_everywhere().await;
    lock.release().await.unwrap();

    scene.all_keys_gone().await;
}
