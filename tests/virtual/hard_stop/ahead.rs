//! With inexact timers, the hard stop is scheduled earlier by their lead.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{
    LockError, LockRequest, Redlock, RedlockBuilder,
    error::LossCause,
    testing::{ManualClock, Nodes, Task},
};

use crate::durations::MS;
use crate::hard_stop::fixture::{HandClock, NANO, TTL, VALIDITY, just_before};

/// The granularity, and half a millisecond for each of two threads.
const LEAD: Duration = Duration::from_millis(3);

fn fixture(set: impl FnOnce(RedlockBuilder) -> RedlockBuilder) -> (ManualClock, Redlock) {
    let clock = ManualClock::new();
    let builder = Nodes::new(3, &clock).replica("a").builder().ttl(TTL);
    let redlock = set(builder).clock(HandClock::over(clock.clone())).build().unwrap();
    (clock, redlock)
}

/// Idle work under a lock without renewal.
fn idle(
    clock: &ManualClock,
    redlock: &Redlock,
    request: impl FnOnce(LockRequest) -> LockRequest,
) -> Task<Result<(), LockError>> {
    let request = request(redlock.lock("x").auto_extend(false));
    let task = clock.spawn(request.run(|_| std::future::pending::<()>()));
    clock.settle();
    task
}

#[track_caller]
fn assert_stops_after(clock: &ManualClock, work: &Task<Result<(), LockError>>, time: Duration) {
    clock.advance(just_before(time));
    assert!(!work.is_finished());
    clock.advance(NANO);
    assert!(work.is_finished());
}

#[test]
fn idle_work_drops_before_end() {
    let (clock, redlock) = fixture(|builder| builder);
    let mut work = idle(&clock, &redlock, |request| request);
    assert_stops_after(&clock, &work, VALIDITY.saturating_sub(LEAD));
    let stopped = work.take().unwrap();
    assert!(matches!(stopped, Err(LockError::Lost { cause: LossCause::Expired { .. } })));
}

#[test]
fn so_it_is_before_max_hold() {
    let (clock, redlock) = fixture(|builder| builder);
    let limit = Duration::from_secs(3);
    let mut work = idle(&clock, &redlock, |request| request.max_hold(limit));
    assert_stops_after(&clock, &work, limit.saturating_sub(LEAD));
    let cause = LossCause::MaxHold { limit };
    assert_eq!(work.take().unwrap(), Err(LockError::Lost { cause }));
}

#[test]
fn a_short_validity_loses_an_eighth() {
    let (clock, redlock) = fixture(|builder| builder);
    let ttl = Duration::from_millis(10);
    let validity = Duration::from_micros(7_900);
    let work = idle(&clock, &redlock, |request| request.ttl(ttl));
    assert_stops_after(&clock, &work, validity * 7 / 8);
}

#[test]
fn the_soft_stop_keeps_its_distance() {
    let (clock, redlock) = fixture(|builder| builder.stop_margin(MS));
    let mut acquired = clock.spawn(redlock.lock("x").auto_extend(false).into_future());
    clock.settle();
    let lock = acquired.take().unwrap().unwrap();
    let (stopping, lost) = (clock.spawn(lock.context().stopping()), clock.spawn(lock.lost()));
    clock.advance(VALIDITY.saturating_sub(LEAD + MS + NANO));
    assert!(!stopping.is_finished());
    clock.advance(NANO);
    assert!(stopping.is_finished());
    assert_eq!(lock.remaining(), LEAD + MS, "the validity is not shorter");
    clock.advance(MS);
    assert!(lost.is_finished());
}

#[test]
fn renewed_work_continues() {
    let (clock, redlock) = fixture(|builder| builder);
    let work = idle(&clock, &redlock, |request| request.auto_extend(true));
    clock.advance(TTL * 10);
    assert!(!work.is_finished());
}
