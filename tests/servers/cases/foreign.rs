//! Keys that this crate did not write and that never expire.

use tower_redlock::{LockError, lock::Released};

use super::scene::{Scene, key, patient};
use crate::support::{RedisServer, eventually};

fn plant(servers: &[RedisServer]) {
    for server in servers {
        server.set(&key("x"), "foreign");
    }
}

#[track_caller]
fn untouched(servers: &[RedisServer]) {
    for server in servers {
        assert_eq!(server.get(&key("x")).as_deref(), Some(&b"foreign"[..]));
        assert_eq!(server.pttl(&key("x")), -1);
    }
}

#[tokio::test]
async fn foreign_minority_neither_blocks_nor_changes() {
    let scene = Scene::new(5);
    plant(&scene.servers[..2]);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();

    lock.extend().await.unwrap();

    assert_eq!(lock.release().await, Ok(Released::Released));

    redlock.shutdown().await;
    untouched(&scene.servers[..2]);
    assert_eq!(scene.key_counts(), [1, 1, 0, 0, 0]);
}

#[tokio::test]
async fn foreign_majority_holds_without_end() {
    let scene = Scene::new(5);
    plant(&scene.servers[2..]);
    let redlock = scene.direct(patient()).await;

    let result = redlock.lock("x").await;

    assert!(
        matches!(result, Err(LockError::Held { expires_in: None, owner: None, .. })),
        "{result:?}"
    );

    eventually("our own keys are gone", || scene.key_counts() == [0, 0, 1, 1, 1]);
    untouched(&scene.servers[2..]);
}

#[tokio::test]
async fn keys_of_another_type_stay_untouched() {
    let scene = Scene::new(3);
    for server in &scene.servers[1..] {
        server.cli(&["LPUSH", &key("x"), "a list"]);
    }
    let redlock = scene.direct(patient()).await;

    let result = redlock.lock("x").await;

    assert!(result.is_err(), "{result:?}");

    eventually("our own key is gone", || scene.key_counts() == [0, 1, 1]);
    for server in &scene.servers[1..] {
        assert_eq!(server.cli(&["LLEN", &key("x")]).int(), 1);
    }
}
