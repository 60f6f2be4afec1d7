//! Locks that are stolen, and locks that cannot be renewed.

use std::{cell::Cell, time::Duration};

use tower_redlock::{
    LockError, Redlock,
    error::LossCause,
    time::{Clock, SystemClock, Timestamp},
};

use super::scene::{LONGEST_LEAD, Scene, key, patient, reasons};
use crate::support::{HANG_GUARD, Proxy};

const TTL: Duration = Duration::from_secs(1);

fn short() -> tower_redlock::RedlockBuilder {
    Redlock::builder().ttl(TTL)
}

#[tokio::test]
async fn stolen_lock_is_lost_at_renewal() {
    let scene = Scene::new(3);
    let redlock = scene.direct(short()).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    let lost = lock.lost();
    scene.servers[..2].iter().for_each(|server| server.set(&key("x"), "thief"));

    let cause = tokio::time::timeout(HANG_GUARD, lost).await.expect("the loss is detected");

    // A lock without a renewal would have expired.
    assert_eq!(cause, LossCause::Stolen { owner: None });
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
async fn work_under_stolen_lock_stops() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient().ttl(TTL)).await;

    let result = redlock
        .lock("x")
        .wait(HANG_GUARD)
        .run(|cx| {
            scene.servers[..2].iter().for_each(|server| server.set(&key("x"), "thief"));
            async move {
                // Returns if it is polled after the loss, which must not happen.
                while cx.ensure_valid().is_ok() {
                    // Pause between polls of the work.
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
async fn stolen_minority_is_harmless() {
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
async fn unrenewable_lock_ends_before_deadline() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(short()).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    scene.proxies.iter().for_each(Proxy::stall);
    // Answers in flight may still move the deadline, so it is read until the end.
    let mut lost = lock.lost();
    let clock = SystemClock::new();
    let stalled = clock.now();
    let mut deadline = stalled;
    let cause = loop {
        // Time between the two readings only makes the result earlier.
        let seen = clock.now() + lock.remaining();
        tokio::select! {
            biased;
            cause = &mut lost => break cause,
            // Sampling interval of the deadline.
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
        if lock.is_valid() {
            deadline = seen;
        }
    };

    let ended = clock.now();

    let LossCause::Expired { votes } = cause else { panic!("{cause:?}") };
    // No node answered a renewal, so no node is listed as having granted.
    assert_eq!(reasons(&votes).len(), 3);
    assert!(deadline > stalled, "the lock was held after the stall");
    assert!(
        ended + LONGEST_LEAD >= deadline,
        "lost {:?} before its end",
        deadline.saturating_duration_since(ended)
    );
    assert!(
        ended < deadline + HANG_GUARD,
        "lost {:?} after its end",
        ended.saturating_duration_since(deadline)
    );
    assert!(!lock.is_valid());
}

/// The system's clock; each thread keeps its last reading.
#[derive(Debug)]
struct RecordingClock;

thread_local! {
    static LAST: Cell<Timestamp> = const { Cell::new(Timestamp::ZERO) };
}

impl Clock for RecordingClock {
    fn now(&self) -> Timestamp {
        let now = SystemClock::new().now();
        LAST.set(now);
        now
    }
}

#[tokio::test]
async fn unrenewable_work_stops_at_deadline() {
    let scene = Scene::new(3);
    let redlock = scene.proxied(short().clock(RecordingClock)).await;
    let mut polls = 0;
    let mut last = (Timestamp::ZERO, Timestamp::ZERO);
    let run = redlock.lock("x").wait(HANG_GUARD).run(|cx| {
        scene.proxies.iter().for_each(Proxy::stall);
        let (polls, last) = (&mut polls, &mut last);
        async move {
            loop {
                // The reading that let this poll begin, and the deadline to the nanosecond.
                let (began, left) = (LAST.get(), cx.remaining());
                let deadline = if left.is_zero() { last.1 } else { LAST.get() + left };
                *polls += 1;
                *last = (began, deadline);
                // Pause between polls of the work.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });

    let result = tokio::time::timeout(HANG_GUARD * 2, run).await.expect("the work is stopped");

    let Err::<(), _>(LockError::Lost { cause: LossCause::Expired { .. } }) = result else {
        panic!("{result:?}")
    };
    assert!(polls > 1, "the work is polled while the lock is held");

    // tests/virtual/hard_stop checks the same on a manual clock.
    let (began, deadline) = last;
    assert!(began < deadline, "{:?} late", began.saturating_duration_since(deadline));
    assert!(RecordingClock.now() < deadline + HANG_GUARD);
}
