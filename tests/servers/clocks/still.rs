//! Pauses of the local clock, as in a suspended virtual machine.

use std::time::Duration;

use tower_redlock::{Redlock, error::LossCause, node::NodeHealth, time::Clock};

use super::scene::{MINUTES, Scene, in_time, is_jump, jump_is_seen, refusal};
use crate::support::{Feature, eventually_async, hand_clock::HandClock, has};

#[tokio::test]
async fn local_pause_advances_deadlines() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let ttl = Duration::from_secs(5);
    let scene = Scene::new();
    let clock = HandClock::system();
    let redlock = scene.manager(Redlock::builder().ttl(ttl).clock(clock.clone())).await;
    let began = clock.now();
    let lock = redlock.lock("a").auto_extend(false).await.unwrap();
    let validity = lock.remaining();
    eventually_async("every server has the key", async || scene.keys() == [true; 3]).await;

    clock.hold();
    eventually_async("the keys have expired", async || scene.keys() == [false; 3]).await;
    assert!(lock.is_valid(), "the local clock has not moved");
    clock.go_on();
    let cause = in_time(lock.lost()).await;
    assert!(matches!(cause, LossCause::Expired { .. }), "{cause}");
    assert!(!lock.is_valid());
    assert!(
        clock.now().saturating_duration_since(began) < validity,
        "the local clock alone does not show the pause"
    );

    scene.log.wait_for("WARN", &["local clock paused"]).await;
    assert_eq!(scene.log.text().matches("local clock paused").count(), 1);
    eventually_async("every node votes", async || {
        redlock.health().iter().all(NodeHealth::is_voting)
    })
    .await;
    // The value is unchanged after the next health checks.
    let (looked, again) = (clock.now(), Duration::from_secs(2));
    eventually_async("every node is checked", async || {
        clock.now().saturating_duration_since(looked) > again
    })
    .await;
    assert!(redlock.health().iter().all(NodeHealth::is_voting), "{:?}", redlock.health());
    assert!(clock.now().saturating_duration_since(looked) < ttl, "a bar would have expired");
    assert_eq!(scene.log.text().matches("local clock paused").count(), 1);

    // Later deadlines use the corrected clock.
    let lock = redlock.lock("a").await.unwrap();
    assert!(lock.is_valid() && lock.remaining() > ttl / 2 && lock.remaining() < ttl);
    lock.release().await.unwrap();
}

#[tokio::test]
async fn valid_lock_is_valid_for_less() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let ttl = Duration::from_secs(60);
    let scene = Scene::new();
    let clock = HandClock::system();
    let redlock = scene.manager(Redlock::builder().ttl(ttl).clock(clock.clone())).await;
    let lock = redlock.lock("a").await.unwrap();
    eventually_async("every server has the key", async || scene.keys() == [true; 3]).await;
    clock.hold();
    // More than clocks drift apart in 60 s.
    let enough = Duration::from_secs(57).as_millis();
    eventually_async("time passes", async || {
        u128::try_from(scene.servers[0].pttl(super::scene::KEY)).unwrap() < enough
    })
    .await;
    clock.go_on();

    scene.log.wait_for("WARN", &["local clock paused"]).await;

    assert!(lock.is_valid());
    assert!(lock.remaining().as_millis() < enough, "{:?}", lock.remaining());

    in_time(lock.extend()).await.unwrap();
    assert!(lock.remaining().as_millis() > enough, "{:?}", lock.remaining());
}

#[tokio::test]
async fn jumped_server_stays_barred() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let ttl = Duration::from_secs(60);
    let scene = Scene::new();
    let clock = HandClock::system();
    let redlock = scene.manager(Redlock::builder().ttl(ttl).clock(clock.clone())).await;
    scene.servers[2].set_clock_offset(MINUTES);
    jump_is_seen(&redlock, 2).await;
    let lock = redlock.lock("a").await.unwrap();
    eventually_async("two servers have the key", async || scene.keys()[..2] == [true; 2]).await;
    clock.hold();
    eventually_async("time passes", async || scene.servers[0].pttl(super::scene::KEY) < 57_000)
        .await;
    clock.go_on();
    scene.log.wait_for("WARN", &["local clock paused"]).await;

    eventually_async("the other two nodes vote", async || {
        redlock.health()[..2].iter().all(NodeHealth::is_voting)
    })
    .await;

    assert!(refusal(&redlock, 2).as_ref().is_some_and(is_jump), "{:?}", redlock.health()[2]);

    drop(lock);
    let _lock = in_time(async { redlock.lock("b").await }).await.unwrap();
    assert!(!scene.servers[2].exists("redlock:lock:b"));
}
