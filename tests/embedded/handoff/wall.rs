//! Under the strict clock guard a lease also ends by the wall clock, whoever holds it by then.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{Lock, Redlock, error::LossCause};

use super::scene::{WAIT, granted, poll, waiting};
use crate::support::{HANG_GUARD, hand_clock::HandClock, scene::Scene};

const WITHIN: Duration = Duration::from_millis(100);
/// TTL − (1 % + 2 ms) − 3 times what clocks may differ by.
const VALIDITY: Duration = Duration::from_millis(9_598);
/// Maximum interval between readings of the wall clock.
const LOOK: Duration = Duration::from_millis(250);
const NANO: Duration = Duration::from_nanos(1);
const MICRO: Duration = Duration::from_micros(1);

/// An unrenewed lock, and a waiter for it with this timeout.
fn scene() -> (HandClock, Redlock, Lock, tower_redlock::lock::Acquire) {
    let scene = Scene::by_hand(3).with(|builder| builder.clock_guard(WITHIN));
    let Scene { clock, redlock, .. } = scene;
    let request = || redlock.lock("x").auto_extend(false);
    let lock = granted(&mut request().into_future());
    let next = waiting(request().wait(WAIT));
    (clock, redlock, lock, next)
}

#[tokio::test]
async fn next_holders_wall_validity_ends_too() {
    let (clock, _redlock, lock, mut next) = scene();
    let token = lock.fencing_token().get();
    let early = VALIDITY / 4;
    clock.advance_wall(early);
    drop(lock);
    let lock = granted(&mut next);
    assert_eq!(lock.fencing_token().get(), token + 1, "handed on");
    clock.advance_wall(VALIDITY.saturating_sub(early + MICRO));
    assert!(lock.is_valid());
    clock.advance_wall(MICRO);
    assert!(!lock.is_valid());
    // Without requests, the wall clock is read periodically.
    clock.advance(LOOK);
    let cause = tokio::time::timeout(HANG_GUARD, lock.lost()).await.unwrap();
    assert!(matches!(cause, LossCause::Expired { .. }), "{cause}");
}

#[tokio::test]
async fn handed_on_work_stops_by_wall() {
    let (clock, redlock, lock, next) = scene();
    drop(next);
    let request = redlock.lock("x").auto_extend(false).wait(WAIT);
    let ahead = clock.clone();
    let mut run = Box::pin(request.run(async |_| {
        ahead.advance_wall(VALIDITY);
        tokio::task::yield_now().await;
        panic!("it must not go on");
    }));
    assert!(poll(&mut run).is_pending(), "it stands in line");
    drop(lock);
    let done: Result<(), _> = tokio::time::timeout(HANG_GUARD, run).await.unwrap();
    assert!(done.is_err());
}

#[tokio::test]
async fn half_spent_lease_is_not_passed() {
    for (by, handed_on) in [((VALIDITY / 2).saturating_sub(MICRO), true), (VALIDITY / 2, false)] {
        let (clock, _redlock, lock, mut next) = scene();
        let token = lock.fencing_token().get();
        clock.advance_wall(by);
        assert!(lock.is_valid());
        drop(lock);
        let lock = granted(&mut next);
        assert_eq!(lock.fencing_token().get() == token + 1, handed_on, "{by:?}");
    }
}

#[tokio::test]
async fn next_holders_extension_counts_by_wall() {
    let (clock, _redlock, lock, mut next) = scene();
    drop(lock);
    let lock = granted(&mut next);
    clock.advance(VALIDITY.saturating_sub(NANO));
    tokio::time::timeout(HANG_GUARD, lock.extend()).await.unwrap().unwrap();
    clock.advance_wall(VALIDITY.saturating_sub(MICRO));
    assert!(lock.is_valid());
    clock.advance_wall(MICRO);
    assert!(!lock.is_valid());
}
