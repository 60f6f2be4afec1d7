//! Conditions under which a lock is released to the nodes although local requests wait.

use std::{future::IntoFuture, task::Poll, time::Duration};

use tower_redlock::{LockError, LockRequest, error::LossCause};

use super::fixture::{Fixture, NODES, TTL, VALIDITY, WAIT, granted, poll, waiting};
use crate::support::HANG_GUARD;

#[test]
fn hand_offs_are_limited() {
    for (limit, leases) in [(0, 7), (1, 4), (2, 3), (5, 2), (6, 1)] {
        let fixture = Fixture::with(|builder| builder.handoff_limit(limit));
        let lock = fixture.lock("x");
        let waiters: Vec<_> = (0..6).map(|_| fixture.waiter("x")).collect();
        drop(lock);
        for mut waiter in waiters {
            drop(granted(&mut waiter));
        }
        assert_eq!(fixture.leases(), leases, "limit {limit}");
    }
}

#[test]
fn hand_offs_end_with_token_block() {
    let fixture = Fixture::with(|builder| builder.handoff_limit(u32::MAX));
    let lock = fixture.lock("x");
    let first = lock.fencing_token().get();
    let waiters: Vec<_> = (0..600).map(|_| fixture.waiter("x")).collect();
    drop(lock);
    let tokens = waiters.into_iter().map(|mut waiter| granted(&mut waiter).fencing_token().get());
    assert!(tokens.eq(first + 1..=first + 600), "block behind block");
    assert_eq!(fixture.leases(), 3);
}

#[test]
fn without_fencing_only_the_limit_counts() {
    let fixture = Fixture::with(|builder| builder.fencing(false).handoff_limit(u32::MAX));
    let lock = fixture.lock("x");
    let waiters: Vec<_> = (0..600).map(|_| fixture.waiter("x")).collect();
    drop(lock);
    assert!(waiters.into_iter().all(|mut waiter| granted(&mut waiter).fencing_token().get() == 0));
    assert_eq!(fixture.leases(), 1);
}

#[test]
fn another_ttl_needs_another_lease() {
    let fixture = Fixture::new();
    let lock = fixture.lock("x");
    let mut other = waiting(fixture.request("x").ttl(TTL / 2));
    drop(lock);
    let lock = granted(&mut other);
    assert_eq!(fixture.leases(), 2);
    assert!(lock.remaining() < TTL / 2);
}

#[tokio::test]
async fn contended_streak_ends_with_a_pause() {
    // The pause does not depend on the retry interval of a waiter that is not woken.
    let fixture = Fixture::with(|builder| builder.retry_delay(WAIT..=WAIT));
    let other = fixture.other();
    let lock = fixture.lock("x");
    let refused = other.lock("x").wait(WAIT).into_future();
    assert!(poll(&mut { refused }).is_pending());
    // The nodes report that another process was refused.
    drop(lock);
    let lock = fixture.lock("x");
    assert_eq!(fixture.leases(), 2);
    let mut next = fixture.waiter("x");
    fixture.clock.advance(Duration::from_millis(4));
    drop(lock);
    let lock = granted(&mut next);
    assert_eq!(fixture.leases(), 2, "handed on");
    let mut next = fixture.waiter("x");
    fixture.clock.advance(Duration::from_millis(1));
    drop(lock);
    assert_eq!(fixture.nodes.key_counts(), [0; NODES], "not handed on");
    assert!(poll(&mut next).is_pending(), "others have their chance first");
    let lock = other.lock("x").await.unwrap();
    drop(lock);
    fixture.clock.advance(Duration::from_millis(10));
    let lock = tokio::time::timeout(HANG_GUARD, next).await.unwrap().unwrap();
    assert_eq!(fixture.leases(), 3);
    // A new streak; no other process was refused since.
    let mut next = fixture.waiter("x");
    fixture.clock.advance(Duration::from_millis(50));
    drop(lock);
    drop(granted(&mut next));
    assert_eq!(fixture.leases(), 3);
}

#[test]
fn single_attempt_does_not_end_a_streak() {
    let asks: [fn(LockRequest) -> LockRequest; 2] =
        [|request| request, |request| request.wait(WAIT).max_attempts(1)];
    for ask in asks {
        let fixture = Fixture::new();
        let other = fixture.other();
        let lock = fixture.lock("x");
        let mut next = fixture.waiter("x");
        let refused = poll(&mut ask(other.lock("x")).into_future());
        assert!(matches!(refused, Poll::Ready(Err(LockError::Held { .. }))), "{refused:?}");
        fixture.clock.advance(Duration::from_millis(100));
        drop(lock);
        let lock = granted(&mut next);
        assert_eq!(fixture.leases(), 2);
        let mut next = fixture.waiter("x");
        fixture.clock.advance(Duration::from_millis(5));
        drop(lock);
        drop(granted(&mut next));
        assert_eq!(fixture.leases(), 2, "handed on");
    }
}

#[test]
fn streak_of_100_ms_releases_lock() {
    let fixture = Fixture::new();
    let lock = fixture.lock("x");
    let mut waiter = fixture.waiter("x");
    fixture.clock.advance(Duration::from_millis(99));
    drop(lock);
    let lock = granted(&mut waiter);
    assert_eq!(fixture.leases(), 1);
    let mut waiter = fixture.waiter("x");
    fixture.clock.advance(Duration::from_millis(1));
    drop(lock);
    assert_eq!(fixture.nodes.key_counts(), [0; NODES]);
    // No other process waits, so there is no pause.
    let lock = granted(&mut waiter);
    assert_eq!(fixture.leases(), 2);
    // A new streak.
    let mut waiter = fixture.waiter("x");
    drop(lock);
    drop(granted(&mut waiter));
    assert_eq!(fixture.leases(), 2);
}

#[test]
fn hung_lock_past_validity_is_lost() {
    let fixture = Fixture::new();
    let lock = granted(&mut fixture.request("x").auto_extend(false).into_future());
    let mut waiter = fixture.waiter("x");
    fixture.clock.advance(VALIDITY);
    drop(lock);
    drop(granted(&mut waiter));
    assert_eq!(fixture.leases(), 2);
    assert_eq!(fixture.nodes.key_counts(), [0; NODES]);
}

#[tokio::test]
async fn shut_down_manager_hands_nothing_on() {
    let fixture = Fixture::new();
    let lock = fixture.lock("x");
    let waiter = fixture.waiter("x");
    let shutdown = fixture.redlock.shutdown();
    shutdown.await;
    drop(lock);
    assert_eq!(fixture.nodes.key_counts(), [0; NODES]);
    let error = waiter.await.unwrap_err();
    assert!(matches!(error, LockError::Closed), "{error:?}");
}

#[tokio::test]
async fn holders_have_separate_max_hold() {
    const HOLD: Duration = Duration::from_secs(2);
    let fixture = Fixture::new();
    let lock = granted(&mut fixture.request("x").max_hold(HOLD).into_future());
    assert_eq!(lock.remaining(), HOLD);
    let mut long = fixture.waiter("x");
    let mut short = waiting(fixture.request("x").max_hold(HOLD));
    fixture.clock.advance(Duration::from_millis(50));
    drop(lock);
    let lock = granted(&mut long);
    assert_eq!(
        lock.remaining(),
        VALIDITY.saturating_sub(Duration::from_millis(50)),
        "not the first one's limit"
    );
    drop(lock);
    let lock = granted(&mut short);
    assert_eq!(lock.remaining(), HOLD, "counted from its own grant");
    assert_eq!(fixture.leases(), 1);
    fixture.clock.advance(HOLD);
    assert!(!lock.is_valid());
    let cause = tokio::time::timeout(HANG_GUARD, lock.lost()).await.unwrap();
    assert_eq!(cause, LossCause::MaxHold { limit: HOLD });
}
