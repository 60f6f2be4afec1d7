//! Outcomes of a release.

use std::time::Duration;

use tower_redlock::{error::ReleaseError, lock::Released};

use crate::fixture::{Fixture, HANG_GUARD, RedisServer, brisk, eventually, key, patient};

#[tokio::test]
async fn quorum_of_deleted_keys_decides() {
    let fixture = Fixture::new(5);
    let redlock = fixture.direct(patient()).await;
    for (gone, expected) in
        [(0, Released::Released), (2, Released::Released), (3, Released::AlreadyLost)]
    {
        let lock = redlock.lock("x").await.unwrap();
        fixture.keys_everywhere().await;
        for server in &fixture.servers[..gone] {
            assert_eq!(server.cli(&["DEL", &key("x")]).int(), 1);
        }
        assert_eq!(lock.release().await, Ok(expected), "{gone} of 5 keys were gone");
        fixture.all_keys_gone().await;
    }
}

#[tokio::test]
async fn release_leaves_the_thiefs_keys() {
    let fixture = Fixture::new(5);
    let redlock = fixture.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    fixture.keys_everywhere().await;
    fixture.servers[1..4].iter().for_each(|server| server.set(&key("x"), "thief"));
    assert_eq!(lock.release().await, Ok(Released::AlreadyLost));
    redlock.shutdown().await;
    assert_eq!(fixture.key_counts(), [0, 1, 1, 1, 0]);
}

#[tokio::test]
async fn unacknowledged_release_is_repeated() {
    let fixture = Fixture::new(5);
    let redlock = fixture.direct(brisk().node_timeout(Duration::from_millis(500))).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    fixture.keys_everywhere().await;
    fixture.servers[..3].iter().for_each(RedisServer::freeze);
    let result = lock.release().await;
    let Err(ReleaseError::NoQuorum { votes }) = result else { panic!("{result:?}") };
    assert_eq!(votes.len(), 5);
    fixture.servers[..3].iter().for_each(RedisServer::thaw);
    // The TTL of a minute does not free them within the test.
    fixture.all_keys_gone().await;
}

#[tokio::test]
async fn frozen_majority_releases_after_thaw() {
    let fixture = Fixture::new(3);
    let redlock = fixture.direct(brisk().node_timeout(Duration::from_millis(200))).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    fixture.keys_everywhere().await;
    fixture.servers[..2].iter().for_each(RedisServer::freeze);
    drop(lock);
    eventually("the connections to frozen servers are closed", || {
        redlock.health().iter().filter(|node| !node.is_voting()).count() == 2
    });
    fixture.servers[..2].iter().for_each(RedisServer::thaw);
    fixture.all_keys_gone().await;
}
