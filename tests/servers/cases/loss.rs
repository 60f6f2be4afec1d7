//! Locks that are stolen, and locks that cannot be renewed.

use std::time::{Duration, Instant};

use tower_redlock::{
    Redlock,
    error::LossCause,
    time::{Clock, SystemClock},
};

use crate::fixture::{
    Fixture, HANG_GUARD, LONG, LONGEST_LEAD, Proxy, eventually, key, patient, reasons,
};

const TTL: Duration = Duration::from_secs(1);

fn short() -> tower_redlock::RedlockBuilder {
    Redlock::builder().ttl(TTL)
}

#[tokio::test]
async fn stolen_lock_is_lost_at_renewal() {
    let fixture = Fixture::new(3);
    let redlock = fixture.direct(short()).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    let lost = lock.lost();
    fixture.servers[..2].iter().for_each(|server| server.set(&key("x"), "thief"));
    let cause = tokio::time::timeout(HANG_GUARD, lost).await.expect("the loss is detected");
    // A lock without a renewal would have expired.
    assert_eq!(cause, LossCause::Stolen { owner: None });
    assert!(!lock.is_valid());
    assert_eq!(lock.remaining(), Duration::ZERO);
    drop(lock);
    redlock.shutdown().await;
    for server in &fixture.servers[..2] {
        assert_eq!(server.get(&key("x")).as_deref(), Some(&b"thief"[..]));
    }
    assert!(!fixture.servers[2].exists(&key("x")));
}

#[tokio::test]
async fn stolen_minority_is_harmless() {
    let fixture = Fixture::new(5);
    let redlock = fixture.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    fixture.servers[..2].iter().for_each(|server| server.set(&key("x"), "thief"));
    for _ in 0..3 {
        lock.extend().await.unwrap();
    }
    assert!(lock.is_valid());
    lock.release().await.unwrap();
    for server in &fixture.servers[..2] {
        assert_eq!(server.get(&key("x")).as_deref(), Some(&b"thief"[..]));
    }
}

#[tokio::test]
async fn unrenewable_lock_ends_before_deadline() {
    let fixture = Fixture::new(3);
    let redlock = fixture.proxied(short()).await;
    let lock = redlock.lock("x").wait(HANG_GUARD).await.unwrap();
    fixture.proxies.iter().for_each(Proxy::stall);
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

#[tokio::test]
async fn unrenewed_lock_can_be_extended() {
    let (fixture, redlock) = Fixture::patient().await;
    let lock = redlock.lock("x").auto_extend(false).await.unwrap();
    fixture.keys_everywhere().await;
    for server in &fixture.servers {
        assert_eq!(server.cli(&["PEXPIRE", &key("x"), "20000"]).int(), 1);
    }
    let before = Instant::now();
    let left = lock.extend().await.unwrap();
    assert!(left + HANG_GUARD > LONG, "{left:?}");
    assert!(Instant::now() + lock.remaining() >= before + left);
    eventually("every key has a full TTL again", || {
        fixture.pttls("x").iter().all(|left| *left > 40_000)
    });
}
