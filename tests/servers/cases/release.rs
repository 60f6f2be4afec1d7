//! How a release comes out.

use std::time::Duration;

use tower_redlock::{error::ReleaseError, lock::Released};

use super::scene::{Scene, brisk, key, patient};
use crate::support::{HANG_GUARD, RedisServer, eventually};

#[tokio::test]
async fn a_release_that_a_quorum_acknowledged_is_released() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    assert_eq!(lock.release().await, Ok(Released::Released));
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn a_release_that_finds_its_keys_deleted_says_already_lost() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    scene.servers[..2].iter().for_each(|s| assert_eq!(s.cli(&["DEL", &key("x")]).int(), 1));
    assert_eq!(lock.release().await, Ok(Released::AlreadyLost));
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn a_release_that_finds_a_thiefs_keys_says_already_lost_and_leaves_them() {
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
async fn a_release_that_lost_a_minority_of_its_keys_is_released() {
    let scene = Scene::new(5);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    scene.servers[..2].iter().for_each(|s| assert_eq!(s.cli(&["DEL", &key("x")]).int(), 1));
    assert_eq!(lock.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn a_release_that_no_quorum_acknowledges_is_an_error_and_repeated_until_the_keys_are_gone() {
    let scene = Scene::new(5);
    let redlock = scene.direct(brisk().node_timeout(Duration::from_millis(500))).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    scene.keys_everywhere().await;
    scene.servers[..3].iter().for_each(RedisServer::freeze);
    let result = lock.release().await;
    let Err(ReleaseError::NoQuorum { votes }) = result else { panic!("{result:?}") };
    assert_eq!(votes.len(), 5);
    scene.servers[..3].iter().for_each(RedisServer::thaw);
    // The TTL of a minute is not what frees them.
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn a_dropped_lock_that_a_frozen_majority_does_not_hear_of_is_released_after_the_thaw() {
    let scene = Scene::new(3);
    let redlock = scene.direct(brisk().node_timeout(Duration::from_millis(200))).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    scene.keys_everywhere().await;
    scene.servers[..2].iter().for_each(RedisServer::freeze);
    drop(lock);
    eventually("the connections to frozen servers are given up", || {
        redlock.health().iter().filter(|node| !node.is_voting()).count() == 2
    });
    scene.servers[..2].iter().for_each(RedisServer::thaw);
    scene.all_keys_gone().await;
}
