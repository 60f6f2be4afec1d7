//! Hints of releases wake waiters, in virtual time.

use std::{sync::atomic::Ordering, task::Poll, time::Duration};

use tower_redlock::{
    Lock, Redlock, RedlockBuilder,
    testing::{ManualClock, Nodes, Replica},
};

use crate::{
    durations::{MINUTE, MS, SECOND},
    fixture::{self, Acquiring, counted, granted, patient, poll},
};

pub(super) fn builder(replica: &Replica) -> RedlockBuilder {
    // A waiter that is not woken sleeps past the end of the test.
    replica.builder().ttl(10 * MINUTE).retry_delay(5 * MINUTE..=5 * MINUTE)
}

/// Blue holds the lock, and green waits for it, over five nodes.
struct Fixture {
    clock: ManualClock,
    nodes: Nodes,
    /// Of green.
    replica: Replica,
    blue: Redlock,
    lock: Option<Lock>,
    waiting: Acquiring,
}

impl Fixture {
    fn new() -> Self {
        Self::with(|builder| builder)
    }

    fn with(blue: impl FnOnce(RedlockBuilder) -> RedlockBuilder) -> Self {
        let fixture::Fixture { clock, nodes, .. } = fixture::Fixture::new(5, []);
        let blue = blue(builder(&nodes.replica("blue"))).build().unwrap();
        let replica = nodes.replica("green");
        let green = builder(&replica).build().unwrap();
        let lock = Some(granted(&mut request(&clock, &blue)));
        let waiting = request(&clock, &green);
        Self { clock, nodes, replica, blue, lock, waiting }
    }

    fn release(&mut self) {
        self.lock = None;
        self.clock.settle();
    }

    /// Blue requests the lock again while its release is in flight.
    fn release_and_request(&mut self) -> Acquiring {
        self.nodes.freeze(0..5);
        self.lock = None;
        request(&self.clock, &self.blue)
    }

    fn thaw(&self) {
        self.nodes.thaw(0..5);
        self.clock.settle();
    }
}

fn request(clock: &ManualClock, redlock: &Redlock) -> Acquiring {
    let task = clock.spawn(IntoFuture::into_future(patient(redlock.lock("x"))));
    clock.settle();
    task
}

#[test]
fn release_wakes_waiter_at_once() {
    let mut fixture = Fixture::new();
    fixture.clock.advance(SECOND);
    assert!(!fixture.waiting.is_finished());
    fixture.release();
    drop(granted(&mut fixture.waiting));
}

#[test]
fn missed_hint_is_recovered_on_return() {
    let mut fixture = Fixture::new();
    fixture.replica.partition(0..3);
    fixture.release();
    assert!(!fixture.waiting.is_finished(), "two nodes are not enough");
    fixture.replica.heal([0]);
    fixture.clock.settle();
    drop(granted(&mut fixture.waiting));
}

#[test]
fn a_stopped_minority_is_not_missed() {
    let mut fixture = Fixture::new();
    fixture.nodes.stop(0..2);
    fixture.release();
    drop(granted(&mut fixture.waiting));
}

#[test]
fn lost_hint_costs_one_second() {
    let fixture::Fixture { clock, nodes, .. } = fixture::Fixture::new(3, []);
    let blue = nodes.replica("blue").builder().ttl(MINUTE).build().unwrap();
    let green = nodes.replica("green").builder().ttl(MINUTE).retry_delay(5 * MS..=40 * MS);
    let green = green.build().unwrap();
    let _lock = granted(&mut request(&clock, &blue));
    let mut waiting = request(&clock, &green);
    // The keys disappear without a release.
    nodes.forget_unguarded(0..3);
    clock.settle();
    assert!(!waiting.is_finished());
    clock.advance(SECOND + 41 * MS);
    drop(granted(&mut waiting));
}

/// The pause is longer than the rest of the wait.
#[test]
fn wait_ends_with_a_try() {
    let fixture::Fixture { clock, nodes, .. } = fixture::Fixture::new(3, []);
    let blue = builder(&nodes.replica("blue")).build().unwrap();
    let green = builder(&nodes.replica("green")).build().unwrap();
    let _lock = granted(&mut request(&clock, &blue));
    let mut waiting = IntoFuture::into_future(green.lock("x").wait(SECOND));
    // The request is refused. Its task does not poll it from then on.
    for _ in 0..2 {
        assert!(poll(&mut waiting).is_pending());
        clock.settle();
    }
    // The keys disappear without a release.
    nodes.forget_unguarded(0..3);
    clock.advance(999 * MS);
    assert_eq!(nodes.key_counts(), [0; 3], "the request pauses");
    clock.advance(MS);
    assert_eq!(nodes.key_counts(), [1; 3], "the manager tries at the deadline");
    assert!(matches!(poll(&mut waiting), Poll::Ready(Ok(_))), "the request is granted the lock");
}

#[test]
fn long_held_lock_is_rarely_requested() {
    let fixture::Fixture { clock, nodes, .. } = fixture::Fixture::new(3, []);
    let blue = nodes.replica("blue").builder().ttl(2 * SECOND).build().unwrap();
    let (green, acquires) =
        counted(&clock, &nodes.replica("green").redlock(), |builder| builder.ttl(2 * SECOND));
    let lock = granted(&mut request(&clock, &blue));
    let mut waiting = request(&clock, &green);
    acquires.store(0, Ordering::Relaxed);
    clock.advance(10 * SECOND);
    // A third of the TTL, and 40 ms at most: by polling it would be 250 tries and more.
    let tries = acquires.load(Ordering::Relaxed) / nodes.len();
    assert!((14..=15).contains(&tries), "{tries} tries");
    drop(lock);
    clock.settle();
    drop(granted(&mut waiting));
}

#[test]
fn the_holders_ttl_bounds_the_pause() {
    let fixture = fixture::Fixture::new(3, ["blue", "green"]);
    let [blue, green] = &fixture.processes;
    let ttl = Duration::from_millis(300);
    let lock = fixture.done(blue.lock("x").ttl(ttl).auto_extend(false)).unwrap();
    // The holder crashes.
    std::mem::forget(lock);
    let mut waiting = request(&fixture.clock, green);
    fixture.clock.advance(ttl + 41 * MS);
    drop(granted(&mut waiting));
}

#[test]
fn long_streak_yields_to_waiters() {
    let mut fixture = Fixture::new();
    fixture.clock.advance(SECOND);
    let mut again = fixture.release_and_request();
    fixture.thaw();
    let lock = granted(&mut fixture.waiting);
    fixture.clock.advance(SECOND);
    assert!(!again.is_finished());
    drop(lock);
    fixture.clock.settle();
    drop(granted(&mut again));
}

#[test]
fn yields_once_without_waiters() {
    let mut fixture = Fixture::new();
    fixture.clock.advance(SECOND / 100);
    let mut again = fixture.release_and_request();
    fixture.nodes.thaw(0..5);
    fixture.clock.advance(SECOND / 10);
    drop(granted(&mut fixture.waiting));
    fixture.clock.settle();
    fixture.lock = Some(granted(&mut again));
    fixture.clock.advance(SECOND / 100);
    let mut again = fixture.release_and_request();
    fixture.thaw();
    drop(granted(&mut again));
}

#[test]
fn yields_without_retry_delay() {
    let mut fixture = Fixture::with(|blue| blue.retry_delay(Duration::ZERO..=Duration::ZERO));
    fixture.clock.advance(SECOND);
    let mut again = fixture.release_and_request();
    // Green receives the hint a moment later.
    fixture.replica.partition(0..5);
    fixture.thaw();
    fixture.replica.heal(0..5);
    fixture.clock.settle();
    drop(granted(&mut fixture.waiting));
    fixture.clock.settle();
    fixture.clock.advance(SECOND);
    drop(granted(&mut again));
}

#[test]
fn long_streak_reacquires_without_waiters() {
    let fixture::Fixture { clock, nodes, .. } = fixture::Fixture::new(5, []);
    let blue = builder(&nodes.replica("blue")).build().unwrap();
    let lock = granted(&mut request(&clock, &blue));
    clock.advance(SECOND);
    nodes.freeze(0..5);
    drop(lock);
    let mut again = request(&clock, &blue);
    assert!(!again.is_finished());
    nodes.thaw(0..5);
    clock.settle();
    drop(granted(&mut again));
}

#[test]
fn yield_does_not_await_silent_nodes() {
    let fixture::Fixture { clock, nodes, .. } = fixture::Fixture::new(5, []);
    let replica = nodes.replica("blue");
    let blue = builder(&replica).build().unwrap();
    let lock = granted(&mut request(&clock, &blue));
    clock.advance(SECOND);
    replica.partition(0..5);
    drop(lock);
    nodes.forget_unguarded(0..5);
    let mut again = request(&clock, &blue);
    replica.heal(0..5);
    clock.advance(10 * MS);
    drop(granted(&mut again));
}

#[test]
fn next_try_precedes_poll() {
    let fixture::Fixture { clock, nodes, .. } = fixture::Fixture::new(5, []);
    let blue = builder(&nodes.replica("blue")).build().unwrap();
    let green = builder(&nodes.replica("green")).build().unwrap();
    let lock = granted(&mut request(&clock, &blue));
    let mut waiting = IntoFuture::into_future(patient(green.lock("x")));
    // The request is refused, and gets a hint.
    for _ in 0..2 {
        assert!(poll(&mut waiting).is_pending());
        clock.settle();
    }
    drop(lock);
    clock.settle();
    let mut holder = clock.spawn(async move { blue.inspect("x").await });
    clock.settle();
    let holder =
        holder.take().expect("the nodes answer in time").unwrap().expect("the lock is held");
    assert_eq!(holder.owner, Some("green".into()));
    assert_eq!(nodes.key_counts(), [1; 5]);
    // A waiter that leaves then releases it.
    drop(waiting);
    clock.settle();
    assert_eq!(nodes.key_counts(), [0; 5]);
}

#[test]
fn every_long_streak_yields() {
    let mut fixture = Fixture::new();
    for _ in 0..2 {
        fixture.clock.advance(2 * SECOND);
        let mut again = fixture.release_and_request();
        // Green may retry, and no answer arrives in time.
        fixture.replica.partition(0..5);
        fixture.thaw();
        assert!(!again.is_finished(), "blue yields to green");
        fixture.clock.advance(SECOND / 10);
        fixture.lock = Some(granted(&mut again));
        fixture.replica.heal(0..5);
        // The answer is that the waiter has to continue waiting.
        fixture.clock.advance(SECOND);
        assert!(!fixture.waiting.is_finished());
    }
    fixture.clock.advance(2 * SECOND);
    let _again = fixture.release_and_request();
    fixture.thaw();
    drop(granted(&mut fixture.waiting));
}
