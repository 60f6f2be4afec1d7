//! Hints of releases wake waiters, in virtual time.

use std::{
    future::IntoFuture,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_redlock::{
    Lock, LockError, Redlock, RedlockBuilder,
    node::{Node, Op},
    testing::{ManualClock, Nodes, Replica},
};

use crate::support::mock_node::{MockNode, with_nodes};

pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn builder(replica: &Replica) -> RedlockBuilder {
    // A waiter that is not woken sleeps past the end of the test.
    replica.builder().ttl(10 * MINUTE).retry_delay(5 * MINUTE..=5 * MINUTE)
}

#[tokio::test]
async fn release_wakes_waiter_at_once() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(5, &clock);
    let blue = builder(&nodes.replica("blue")).build().unwrap();
    let green = builder(&nodes.replica("green")).build().unwrap();
    let lock = blue.lock("x").await.unwrap();
    let mut waiting = clock.spawn(green.lock("x").wait(60 * MINUTE).into_future());

    clock.advance(SECOND);

    assert!(!waiting.is_finished());

    drop(lock);
    clock.settle();
    drop(waiting.take().expect("time stood still").unwrap());
}

#[tokio::test]
async fn missed_hint_is_recovered_on_return() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(5, &clock);
    let blue = builder(&nodes.replica("blue")).build().unwrap();
    let replica = nodes.replica("green");
    let green = builder(&replica).build().unwrap();
    let lock = blue.lock("x").await.unwrap();
    let mut waiting = clock.spawn(green.lock("x").wait(60 * MINUTE).into_future());
    clock.settle();
    replica.partition(0..3);
    drop(lock);

    clock.settle();

    assert!(!waiting.is_finished(), "two nodes are not enough");

    replica.heal([0]);
    clock.settle();
    drop(waiting.take().expect("a quorum is heard again").unwrap());
}

#[tokio::test]
async fn a_stopped_minority_is_not_missed() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(5, &clock);
    let blue = builder(&nodes.replica("blue")).build().unwrap();
    let green = builder(&nodes.replica("green")).build().unwrap();
    let lock = blue.lock("x").await.unwrap();
    let mut waiting = clock.spawn(green.lock("x").wait(60 * MINUTE).into_future());
    clock.settle();
    nodes.stop(0..2);
    drop(lock);
    clock.settle();

    drop(waiting.take().expect("three nodes tell").unwrap());
}

#[tokio::test]
async fn lost_hint_costs_one_second() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let pause = Duration::from_millis(5)..=Duration::from_millis(40);
    let blue = nodes.replica("blue").builder().ttl(MINUTE).build().unwrap();
    let green = nodes.replica("green").builder().ttl(MINUTE).retry_delay(pause).build().unwrap();
    let lock = blue.lock("x").await.unwrap();
    let mut waiting = clock.spawn(green.lock("x").wait(10 * MINUTE).into_future());
    clock.settle();
    // The keys disappear without a release.
    nodes.forget_unguarded(0..3);

    clock.settle();

    assert!(!waiting.is_finished());

    clock.advance(SECOND + Duration::from_millis(41));
    drop(waiting.take().expect("the fallback").unwrap());
    drop(lock);
}

/// A manager whose acquires are counted, node by node.
pub(super) fn counted(
    clock: &ManualClock,
    nodes: &Nodes,
    with: impl FnOnce(RedlockBuilder) -> RedlockBuilder,
) -> (Redlock, Arc<AtomicUsize>) {
    let lender = nodes.replica("green").redlock();
    let acquires = Arc::<AtomicUsize>::default();
    let count = |node: &Arc<dyn Node>| {
        let acquires = Arc::clone(&acquires);
        MockNode::observing(node, move |op| {
            acquires.fetch_add(usize::from(matches!(op, Op::Acquire(_))), Ordering::Relaxed);
        })
    };
    let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
    let builder = with_nodes(builder, lender.nodes().iter().map(count));
    (with(builder).build().unwrap(), acquires)
}

#[tokio::test]
async fn long_held_lock_is_rarely_requested() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let blue = nodes.replica("blue").builder().ttl(2 * SECOND).build().unwrap();
    let (green, acquires) = counted(&clock, &nodes, |builder| builder.ttl(2 * SECOND));
    let lock = blue.lock("x").await.unwrap();
    let mut waiting = clock.spawn(green.lock("x").wait(MINUTE).into_future());
    clock.settle();
    acquires.store(0, Ordering::Relaxed);
    clock.advance(10 * SECOND);

    // A third of the TTL, and 40 ms at most: by polling it would be 250 tries and more.
    let tries = acquires.load(Ordering::Relaxed) / nodes.len();

    assert!((14..=15).contains(&tries), "{tries} tries");

    drop(lock);
    clock.settle();
    drop(waiting.take().expect("woken").unwrap());
}

#[tokio::test]
async fn the_holders_ttl_bounds_the_pause() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let blue = nodes.replica("blue").redlock();
    let green = nodes.replica("green").redlock();
    let ttl = Duration::from_millis(300);
    let lock = blue.lock("x").ttl(ttl).auto_extend(false).await.unwrap();
    // The holder crashes.
    std::mem::forget(lock);
    let mut waiting = clock.spawn(green.lock("x").wait(MINUTE).into_future());
    clock.advance(ttl + Duration::from_millis(41));

    drop(waiting.take().expect("free once the TTL is over").unwrap());
}

#[tokio::test]
async fn long_streak_yields_to_waiters() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(5, &clock);
    let blue = builder(&nodes.replica("blue")).build().unwrap();
    let green = builder(&nodes.replica("green")).build().unwrap();
    let lock = blue.lock("x").await.unwrap();
    let mut waiting = clock.spawn(green.lock("x").wait(60 * MINUTE).into_future());
    clock.advance(SECOND);
    // The release is in flight when blue retries.
    nodes.freeze(0..5);
    drop(lock);
    let mut again = clock.spawn(blue.lock("x").wait(60 * MINUTE).into_future());
    clock.settle();
    nodes.thaw(0..5);
    clock.settle();
    let lock = waiting.take().expect("its turn").unwrap();

    clock.advance(SECOND);

    assert!(!again.is_finished());

    drop(lock);
    clock.settle();
    drop(again.take().expect("green gave it back").unwrap());
}

#[tokio::test]
async fn yields_once_without_waiters() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(5, &clock);
    let blue = builder(&nodes.replica("blue")).build().unwrap();
    let green = builder(&nodes.replica("green")).build().unwrap();
    let lock = blue.lock("x").await.unwrap();
    let waiting = clock.spawn(green.lock("x").wait(60 * MINUTE).into_future());
    clock.advance(SECOND / 100);
    nodes.freeze(0..5);
    drop(lock);
    let mut again = clock.spawn(blue.lock("x").wait(60 * MINUTE).into_future());
    clock.settle();
    nodes.thaw(0..5);
    clock.advance(SECOND / 10);
    drop({ waiting }.take().expect("its turn").unwrap());
    clock.settle();
    let lock = again.take().expect("green gave it back").unwrap();
    clock.advance(SECOND / 100);
    nodes.freeze(0..5);
    drop(lock);
    let mut again = clock.spawn(blue.lock("x").wait(60 * MINUTE).into_future());
    clock.settle();
    nodes.thaw(0..5);
    clock.settle();

    drop(again.take().expect("nobody waits").unwrap());
}

#[tokio::test]
async fn yields_without_retry_delay() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(5, &clock);
    let no_delay = Duration::ZERO..=Duration::ZERO;
    let blue = builder(&nodes.replica("blue")).retry_delay(no_delay).build().unwrap();
    let replica = nodes.replica("green");
    let green = builder(&replica).build().unwrap();
    let lock = blue.lock("x").await.unwrap();
    let mut waiting = clock.spawn(green.lock("x").wait(60 * MINUTE).into_future());
    clock.advance(SECOND);
    nodes.freeze(0..5);
    drop(lock);
    let mut again = clock.spawn(blue.lock("x").wait(60 * MINUTE).into_future());
    clock.settle();
    // Green receives the hint a moment later.
    replica.partition(0..5);
    nodes.thaw(0..5);
    clock.settle();
    replica.heal(0..5);
    clock.settle();
    drop(waiting.take().expect("its turn").unwrap());
    clock.settle();
    clock.advance(SECOND);

    drop(again.take().expect("green gave it back").unwrap());
}

#[tokio::test]
async fn long_streak_reacquires_without_waiters() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(5, &clock);
    let blue = builder(&nodes.replica("blue")).build().unwrap();
    let lock = blue.lock("x").await.unwrap();
    clock.advance(SECOND);
    nodes.freeze(0..5);
    drop(lock);
    let mut again = clock.spawn(blue.lock("x").wait(60 * MINUTE).into_future());

    clock.settle();

    assert!(!again.is_finished());

    nodes.thaw(0..5);
    clock.settle();
    drop(again.take().expect("nobody waits").unwrap());
}

#[tokio::test]
async fn yield_does_not_await_silent_nodes() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(5, &clock);
    let replica = nodes.replica("blue");
    let blue = builder(&replica).build().unwrap();
    let lock = blue.lock("x").await.unwrap();
    clock.advance(SECOND);
    replica.partition(0..5);
    drop(lock);
    nodes.forget_unguarded(0..5);
    let mut again = clock.spawn(blue.lock("x").wait(60 * MINUTE).into_future());
    clock.settle();
    replica.heal(0..5);
    clock.advance(Duration::from_millis(10));

    drop(again.take().expect("its patience is over").unwrap());
}

#[tokio::test]
async fn next_try_precedes_poll() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(5, &clock);
    let blue = builder(&nodes.replica("blue")).build().unwrap();
    let green = builder(&nodes.replica("green")).build().unwrap();
    let lock = blue.lock("x").await.unwrap();
    let mut waiting = green.lock("x").wait(60 * MINUTE).into_future();
    // The request is refused, and gets a hint.
    for _ in 0..2 {
        assert!(poll(&mut waiting).is_pending());
        clock.settle();
    }
    drop(lock);
    clock.settle();

    let owner = async || blue.inspect("x").await.unwrap().map(|holder| holder.owner);

    assert_eq!(owner().await, Some(Some("green".into())));
    assert_eq!(nodes.key_counts(), [1; 5]);

    // A waiter that leaves then releases it.
    drop(waiting);
    clock.settle();
    assert_eq!(nodes.key_counts(), [0; 5]);
}

#[tokio::test]
async fn every_long_streak_yields() {
    const LONG: Duration = Duration::from_secs(2);
    let clock = ManualClock::new();
    let nodes = Nodes::new(5, &clock);
    let blue = builder(&nodes.replica("blue")).build().unwrap();
    let replica = nodes.replica("green");
    let green = builder(&replica).build().unwrap();
    let mut lock = blue.lock("x").await.unwrap();
    let mut waiting = clock.spawn(green.lock("x").wait(60 * MINUTE).into_future());

    for is_last in [false, false, true] {
        clock.advance(LONG);
        // The release is in flight when blue retries.
        nodes.freeze(0..5);
        drop(lock);
        let mut again = clock.spawn(blue.lock("x").wait(60 * MINUTE).into_future());
        clock.settle();
        if is_last {
            nodes.thaw(0..5);
            clock.settle();
            drop(waiting.take().expect("its turn").unwrap());
            return;
        }
        // Green may retry, and no answer arrives in time.
        replica.partition(0..5);
        nodes.thaw(0..5);
        clock.settle();
        assert!(!again.is_finished(), "blue gives way");
        clock.advance(SECOND / 10);
        lock = again.take().expect("nobody took it").unwrap();
        replica.heal(0..5);
        // The answer is that the waiter has to continue waiting.
        clock.advance(SECOND);
        assert!(!waiting.is_finished());
    }
}

pub(super) fn poll(acquire: &mut tower_redlock::lock::Acquire) -> Poll<Result<Lock, LockError>> {
    Pin::new(acquire).poll(&mut Context::from_waker(Waker::noop()))
}
