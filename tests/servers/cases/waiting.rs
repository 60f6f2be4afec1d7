//! Waiting for a lock of another client.

use std::{
    task::Poll,
    time::{Duration, Instant},
};

use tower_redlock::LockError;

use super::scene::{LONG, Scene, key, patient, poll_once};
use crate::support::{HANG_GUARD, eventually};

#[tokio::test]
async fn waiter_gets_a_released_lock() {
    let scene = Scene::new(3);
    let (a, b) = (scene.direct(patient()).await, scene.direct(patient()).await);
    let lock = a.lock("x").await.unwrap();

    let mut waiting = b.lock("x").wait(HANG_GUARD).into_future();

    assert!(poll_once(&mut waiting).is_pending());

    drop(lock);
    let lock = waiting.await.unwrap();
    assert!(matches!(a.lock("x").await, Err(LockError::Held { .. })));

    drop(lock);
}

#[tokio::test]
async fn failed_wait_names_last_holder() {
    let scene = Scene::new(3);
    let holder = scene.direct(patient().owner("holder")).await;
    let redlock = scene.direct(patient()).await;
    let lock = holder.lock("x").await.unwrap();
    let wait = Duration::from_millis(100);
    let started = Instant::now();
    let result = redlock.lock("x").wait(wait).await;

    let elapsed = started.elapsed();

    let Err(LockError::WaitTimedOut { waited, last }) = result else { panic!("{result:?}") };
    assert!(wait <= waited && waited <= elapsed && elapsed < HANG_GUARD);
    let LockError::Held { owner, expires_in: Some(_), .. } = *last else { panic!("{last:?}") };
    assert_eq!(owner.as_deref(), Some("holder"));

    drop(lock);
    scene.all_keys_gone().await;
}

#[tokio::test]
async fn last_try_ends_the_wait() {
    let scene = Scene::new(3);
    // The pause is longer than the wait: one attempt at the start and one at the end.
    let redlock = scene.direct(patient().retry_delay(LONG..=LONG)).await;
    scene.servers.iter().for_each(|server| server.set(&key("x"), "foreign"));

    let mut waiting = redlock.lock("x").wait(Duration::from_secs(1)).into_future();

    assert!(poll_once(&mut waiting).is_pending());

    eventually("the first attempt ends", || {
        redlock.health().iter().all(|node| node.in_flight == 0)
    });
    assert!(matches!(poll_once(&mut waiting), Poll::Pending));
    for server in &scene.servers {
        assert_eq!(server.cli(&["DEL", &key("x")]).int(), 1);
    }

    drop(waiting.await.expect("free well before the end of the wait"));
}
