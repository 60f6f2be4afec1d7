//! Managers over the kit's clock and nodes.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{
    LockError,
    error::LossCause,
    testing::{ManualClock, Nodes},
    time::Clock,
};

use crate::durations::SECOND;
use crate::fixture::Fixture;
use crate::support::hand_clock::HandClock;

const TTL: Duration = Duration::from_secs(10);
/// TTL − (1 % + 2 ms).
const VALIDITY: Duration = Duration::from_millis(9_898);

fn is_held(error: &LockError, by: &str) -> bool {
    matches!(error, LockError::Held { owner, .. } if owner.as_deref() == Some(by))
}

#[tokio::test]
async fn advance_renews_locks_leap_loses_them() {
    let Fixture { clock, nodes, processes: [blue, green] } = Fixture::new(5, ["blue", "green"]);
    let lock = blue.lock("x").await.unwrap();
    for _ in 0..28 {
        clock.advance(TTL);
        assert!(lock.is_valid());
        assert!(is_held(&green.lock("x").await.unwrap_err(), "blue"));
    }
    assert_eq!(nodes.key_counts(), [1; 5]);
    clock.leap(VALIDITY);
    let mut lost = clock.spawn(lock.lost());
    clock.settle();
    assert!(matches!(lost.take(), Some(LossCause::Expired { .. })), "stopped for too long");
    drop(green.lock("x").await.unwrap());
}

#[tokio::test]
async fn unrenewed_lock_expires_at_its_ttl() {
    let Fixture { clock, nodes, processes: [blue, green] } = Fixture::new(5, ["blue", "green"]);
    let lock = blue.lock("x").auto_extend(false).await.unwrap();
    // The holder crashes, so the lock is not released.
    let token = lock.fencing_token();
    std::mem::forget(lock);
    nodes.stop(0..5);
    clock.advance(TTL.saturating_sub(Duration::from_nanos(1)));
    nodes.start(0..5);
    assert!(is_held(&green.lock("x").await.unwrap_err(), "blue"));
    clock.advance(Duration::from_nanos(1));
    assert!(green.lock("x").await.unwrap().fencing_token() > token);
}

#[tokio::test]
async fn waiting_takes_clock_time() {
    let Fixture { clock, processes: [blue, green], .. } = Fixture::new(5, ["blue", "green"]);
    let lock = blue.lock("x").await.unwrap();
    let (patient, hasty) = (green.lock("x").wait(5 * SECOND), green.lock("x").wait(2 * SECOND));
    let mut patient = clock.spawn(patient.into_future());
    let mut hasty = clock.spawn(hasty.into_future());
    clock.advance(2 * SECOND);
    let timed_out = hasty.take().expect("the wait is over").unwrap_err();
    assert!(matches!(timed_out, LockError::WaitTimedOut { waited, .. } if waited == 2 * SECOND));
    assert!(!patient.is_finished());
    drop(lock);
    // The longest pause between two tries.
    clock.advance(Duration::from_millis(40));
    drop(patient.take().expect("the waiter is granted the lock").unwrap());
}

#[tokio::test]
async fn tokens_follow_wall_clocks() {
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let day = 24 * 3_600 * SECOND;
    let mut last = 0;

    for view in [clock.ahead_by(day), clock.clone(), clock.behind_by(day), clock.ahead_by(day)] {
        let redlock = nodes.replica("a").with_clock(view).redlock();
        let token = redlock.lock("x").await.unwrap().fencing_token().get();
        assert!(token > last, "{token} after {last}");
        assert!(u128::from(token) < (clock.wall() + SECOND).as_micros(), "{token}");
        last = token;
    }
}

/// The drift allowance of a lock covers a holder whose clock is slow.
#[tokio::test]
async fn drift_bounds_slow_replica() {
    for (millionths, is_in_time) in [(-9_000, true), (-20_000, false)] {
        let clock = ManualClock::new();
        let nodes = Nodes::new(5, &clock);
        let slow = nodes.replica("slow").with_clock(clock.running_fast_by(millionths)).redlock();
        let lock = slow.lock("x").auto_extend(false).await.unwrap();
        clock.advance(TTL);
        assert_eq!(nodes.key_counts(), [0; 5], "the nodes' clocks are on time");
        assert_eq!(!lock.is_valid(), is_in_time);
    }
}

#[test]
fn dropped_manager_leaves_nothing() {
    let clock = ManualClock::new();
    let managers = HandClock::over(clock.clone()).with_granularity(Duration::ZERO);
    let of_clock = managers.downgrade();
    let replica = Nodes::new(3, &clock).replica("blue");
    let redlock = replica.builder().clock(managers).build().unwrap();
    let mut lock = clock.spawn(redlock.lock("x").into_future());
    clock.advance(5 * SECOND);
    drop(lock.take().expect("the lock is granted").unwrap());
    assert!(of_clock.upgrade().is_some());
    drop(redlock);
    assert!(of_clock.upgrade().is_none(), "the timers are gone before the clock is moved again");
}
