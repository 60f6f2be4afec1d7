//! Outcomes of a release.

use std::time::Duration;

use tower_redlock::{error::ReleaseError, lock::Released};

use super::scene::{Scene, brisk, key, patient};
use crate::support::{HANG_GUARD, RedisServer, eventually};

#[tokio::test]
async fn release_that_quorum_acknowledged_is_released() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    assert_eq!(lock.release().await, Ok(Released::Released));
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn release_of_deleted_keys_is_late() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    scene.servers[..2].iter().for_each(|s| assert_eq!(s.cli(&["DEL", &key("x")]).int(), 1));
    assert_eq!(lock.release().await, Ok(Released::AlreadyLost));
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn release_leaves_the_thiefs_keys() {
    let scene = Scene::new(5);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    scene.servers[1..4].iter().for_each(|server| server.set(&key("x"), "thief"));
    assert_eq!(lock.release().await, Ok(Released::AlreadyLost));
    redlock.shutdown().await;
    assert_eq!(scene.key_counts(), [0, 1, 1, 1, 0]);
}

#[tokio::test]
async fn release_may_lack_a_minority() {
    let scene = Scene::new(5);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    scene.servers[..2].iter().for_each(|s| assert_eq!(s.cli(&["DEL", &key("x")]).int(), 1));
    assert_eq!(lock.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn unacknowledged_release_is_repeated() {
    let scene = Scene::new(5);
    let redlock = scene.direct(brisk().node_timeout(Duration::from_millis(500))).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    scene.keys_everywhere().await;
    scene.servers[..3].iter().for_each(RedisServer::freeze);

    let result = lock.release().await;

    let Err(ReleaseError::NoQuorum { votes }) = result else { panic!("{result:?}") };
    assert_eq!(votes.len(), 5);

    scene.servers[..3].iter().for_each(RedisServer::thaw);
    // The TTL of a minute does not free them within the test.
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn frozen_majority_releases_after_thaw() {
    let scene = Scene::new(3);
    let redlock = scene.direct(brisk().node_timeout(Duration::from_millis(200))).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    scene.keys_everywhere().await;
    scene.servers[..2].iter().for_each(RedisServer::freeze);
    drop(lock);
    eventually("the connections to frozen servers are closed", || {
        redlock.health().iter().filter(|node| !node.is_voting()).count() == 2
    });
    scene.servers[..2].iter().for_each(RedisServer::thaw);

    scene.all_keys_gone().await;
}
