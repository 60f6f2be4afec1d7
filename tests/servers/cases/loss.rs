//! Locks that are stolen, and locks that cannot be renewed.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tower_redlock::{LockError, LossCause, Redlock};

use super::scene::{Scene, key, patient, reasons};
use crate::support::{HANG_GUARD, Proxy};

const TTL: Duration = Duration::from_secs(1);

fn short() -> tower_redlock::RedlockBuilder {
    Redlock::builder().ttl(TTL)
}

#[tokio::test]
async fn a_stolen_lock_is_lost_at_the_next_renewal_and_the_thief_keeps_his_key() {
    let scene = Scene::new(3);
    let redlock = scene.direct(short()).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    let lost = lock.lost();
    let left = lock.remaining();
    let stolen = Instant::now();
    scene.servers[..2].iter().for_each(|server| server.set(&key("x"), "thief"));
    let cause = tokio::time::timeout(HANG_GUARD, lost).await.expect("the loss is noticed");
    // Without a renewal it would only have been noticed at the end of the validity.
    let noticed = stolen.elapsed();
    assert_eq!(cause, LossCause::Stolen { owner: None });
    assert!(noticed < left, "noticed after {noticed:?}, valid for {left:?}");
    assert!(!lock.is_valid());
    assert_eq!(lock.remaining(), Duration::ZERO);
    drop(lock);
    redlock.shutdown().await;
    for server in &scene.servers[..2] {
        assert_eq!(server.get(&key("x")).as_deref(), Some(&b"thief"[..]));
    }
    assert!(!scene.servers[2].exists(&key("x")));
}

#[tokio::test]
async fn work_under_a_stolen_lock_is_stopped_and_told_why() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient().ttl(TTL)).await;
    let result = redlock
        .lock("x")
        .wait(HANG_GUARD)
        .run(|cx| {
            scene.servers[..2].iter().for_each(|server| server.set(&key("x"), "thief"));
            async move {
                // Ready the moment it is polled after a loss: it must not be.
                while cx.ensure_valid().is_ok() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                "polled under a lost lock"
            }
        })
        .await;
    let Err(LockError::Lost { cause: LossCause::Stolen { .. } }) = result else {
        panic!("{result:?}")
    };
}

#[tokio::test]
async fn a_minority_of_stolen_keys_does_no_harm() {
    let scene = Scene::new(5);
    let redlock = scene.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    scene.servers[..2].iter().for_each(|server| server.set(&key("x"), "thief"));
    for _ in 0..3 {
        lock.extend().await.unwrap();
    }
    assert!(lock.is_valid());
    lock.release().await.unwrap();
    for server in &scene.servers[..2] {
        assert_eq!(server.get(&key("x")).as_deref(), Some(&b"thief"[..]));
    }
}

#[tokio::test]
async fn a_lock_that_cannot_be_renewed_is_stopped_at_its_deadline() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(short()).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    scene.proxies.iter().for_each(Proxy::stall);
    // Answers that were on their way may still move the deadline: it is read until the end.
    let mut lost = lock.lost();
    let mut deadline = Instant::now();
    let cause = loop {
        let seen = Instant::now() + lock.remaining();
        tokio::select! {
            biased;
            cause = &mut lost => break cause,
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
        if lock.is_valid() {
            deadline = seen;
        }
    };
    let ended = Instant::now();
    let LossCause::Expired { votes } = cause else { panic!("{cause:?}") };
    // Nobody answered a renewal, so nobody is said to have granted.
    assert_eq!(reasons(&votes).len(), 3);
    // A reading between two of the clock's may come out early by what passed between them.
    let slack = Duration::from_millis(50);
    assert!(ended + slack >= deadline, "lost {:?} before its end", deadline - ended);
    assert!(ended < deadline + HANG_GUARD);
    assert!(!lock.is_valid());
}

#[tokio::test]
async fn work_whose_lock_cannot_be_renewed_is_not_polled_after_the_deadline() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(short()).await;
    // At each poll: the moment, and the deadline as it was then.
    let polls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&polls);
    let result = redlock
        .lock("x")
        .wait(HANG_GUARD)
        .run(|cx| {
            scene.proxies.iter().for_each(Proxy::stall);
            async move {
                loop {
                    let now = Instant::now();
                    let left = cx.remaining();
                    seen.lock().unwrap().push((now, left));
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        })
        .await;
    let ended = Instant::now();
    let Err::<(), _>(LockError::Lost { cause: LossCause::Expired { .. } }) = result else {
        panic!("{result:?}")
    };
    let polls = polls.lock().unwrap();
    assert!(polls.len() > 10);
    let deadline = polls.iter().map(|(at, left)| *at + *left).max().unwrap();
    let (last, _) = *polls.last().unwrap();
    // tests/hard_stop.rs holds the exact rule, on a clock that is moved by hand.
    let slack = Duration::from_millis(50);
    assert!(last < deadline + slack, "{:?} late", last - deadline);
    assert!(ended < deadline + HANG_GUARD);
}
