//! Locks that are stolen, and locks that cannot be renewed.

use std::time::Duration;

use tower_redlock::{
    Redlock,
    error::LossCause,
    time::{Clock, SystemClock},
};

use crate::fixture::{Fixture, HANG_GUARD, LONGEST_LEAD, Proxy, key, reasons};

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
