//! The readings of the clock, and the tasks that it wakes.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_redlock::{
    testing::ManualClock,
    time::{Clock, Timestamp},
};

use crate::{
    durations::{NANO, SECOND},
    fixture::Woken,
};

#[test]
fn clones_are_one_clock() {
    let clock = ManualClock::new();
    let (now, wall) = (clock.now(), clock.wall());
    assert!(now > Timestamp::ZERO);
    std::thread::yield_now();
    assert_eq!((clock.now(), clock.wall()), (now, wall));
    clock.clone().advance(SECOND);
    clock.clone().leap(SECOND);
    assert_eq!((clock.now(), clock.wall()), (now + 2 * SECOND, wall + 2 * SECOND));
    assert_eq!(ManualClock::new().now(), now, "every clock starts at the same moment");
    assert_eq!(ManualClock::default().wall(), wall);
}

#[test]
fn wait_ends_exactly_when_due() {
    let clock = ManualClock::new();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let mut wait = clock.wait(clock.now() + SECOND);
    let mut poll = || wait.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(poll().is_pending());
    assert!(poll().is_pending());
    clock.advance(SECOND.saturating_sub(NANO));
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    assert!(poll().is_pending());
    clock.advance(NANO);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "polled thrice, woken once");
    assert!(poll().is_ready());
    clock.advance(SECOND);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
}

#[test]
fn past_and_dropped_waits_wake_nothing() {
    let clock = ManualClock::new();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let poll = |wait: std::pin::Pin<&mut dyn Future<Output = ()>>| -> Poll<()> {
        wait.poll(&mut Context::from_waker(&waker))
    };
    assert!(poll(pin!(clock.sleep(Duration::ZERO))).is_ready());
    assert!(poll(pin!(clock.sleep_until(Timestamp::ZERO))).is_ready());
    assert!(poll(pin!(clock.sleep(SECOND))).is_pending());
    assert_eq!(Arc::strong_count(&woken), 2, "the dropped one is forgotten");
    clock.leap(2 * SECOND);
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
}

#[test]
fn wall_clock_belongs_to_its_view() {
    let clock = ManualClock::new();
    let other = clock.ahead_by(60 * SECOND);
    let (now, wall) = (clock.now(), clock.wall());
    assert_eq!(other.wall(), wall + 60 * SECOND);
    assert_eq!(clock.behind_by(60 * SECOND).wall(), wall.saturating_sub(60 * SECOND));
    assert_eq!(clock.behind_by(Duration::MAX).wall(), Duration::ZERO);
    clock.set_wall(5 * SECOND);
    assert_eq!(clock.now(), now);
    assert_eq!(other.wall(), wall + 60 * SECOND);
    other.advance(SECOND);
    assert_eq!(clock.wall(), 6 * SECOND, "it goes on from there");
    assert_eq!(other.wall(), wall + 61 * SECOND);
    assert_eq!((clock.now(), other.now()), (now + SECOND, now + SECOND), "they share one time");
}

#[test]
fn view_has_its_own_rate() {
    let clock = ManualClock::new();
    let (now, wall) = (clock.now(), clock.wall());
    let (fast, slow) = (clock.running_fast_by(250_000), clock.running_fast_by(-250_000));
    let (mut at_fast, mut at_slow) = (fast.sleep(5 * SECOND), slow.sleep(3 * SECOND));
    let mut is_over = |of_fast: bool| {
        let sleep = if of_fast { &mut at_fast } else { &mut at_slow };
        pin!(sleep).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    clock.advance((4 * SECOND).saturating_sub(NANO));
    assert!(!is_over(true) && !is_over(false));
    clock.advance(NANO);
    assert!(is_over(true) && is_over(false));
    assert_eq!((fast.now(), fast.wall()), (now + 5 * SECOND, wall + 5 * SECOND));
    assert_eq!((slow.now(), slow.wall()), (now + 3 * SECOND, wall + 3 * SECOND));
    // A view of a view begins where that stands, and keeps its rate.
    let further = fast.ahead_by(SECOND);
    assert_eq!((further.now(), further.wall()), (fast.now(), fast.wall() + SECOND));
    clock.advance(4 * SECOND);
    assert_eq!(further.now(), fast.now());
    assert_eq!(fast.now(), now + 10 * SECOND);
}

#[test]
fn clock_saturates_at_end_of_time() {
    let clock = ManualClock::new();
    let creeping = clock.running_fast_by(i32::MIN);
    clock.leap(Duration::MAX);
    let end = clock.now();
    assert_eq!(end, Timestamp::MAX);
    assert!(creeping.now() < end);
    clock.advance(Duration::MAX);
    assert_eq!(clock.now(), end);
    assert!(pin!(clock.sleep(SECOND)).poll(&mut Context::from_waker(Waker::noop())).is_ready());
}
