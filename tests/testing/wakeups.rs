//! Who waits is told of releases, in virtual time.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{
    RedlockBuilder,
    testing::{ManualClock, Nodes, Replica},
};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn builder(replica: &Replica) -> RedlockBuilder {
    // Who is not woken sleeps through the test.
    replica.builder().ttl(10 * MINUTE).retry_delay(5 * MINUTE..=5 * MINUTE)
}

#[tokio::test]
async fn a_release_wakes_who_waits_at_the_same_moment() {
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
async fn what_is_missed_while_cut_off_is_made_up_for_on_return() {
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
async fn a_hint_that_is_lost_costs_a_second_and_not_the_ttl() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let pause = Duration::from_millis(5)..=Duration::from_millis(40);
    let blue = nodes.replica("blue").builder().ttl(MINUTE).build().unwrap();
    let green = nodes.replica("green").builder().ttl(MINUTE).retry_delay(pause).build().unwrap();
    let lock = blue.lock("x").await.unwrap();
    let mut waiting = clock.spawn(green.lock("x").wait(10 * MINUTE).into_future());
    clock.settle();
    // The keys go, and nobody gave them back.
    nodes.forget(0..3);
    clock.settle();
    assert!(!waiting.is_finished());
    clock.advance(SECOND + Duration::from_millis(41));
    drop(waiting.take().expect("the fallback").unwrap());
    drop(lock);
}

#[tokio::test]
async fn the_holders_ttl_bounds_the_pause() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let blue = nodes.replica("blue").redlock();
    let green = nodes.replica("green").redlock();
    let ttl = Duration::from_millis(300);
    let lock = blue.lock("x").ttl(ttl).auto_extend(false).await.unwrap();
    // It crashes.
    std::mem::forget(lock);
    let mut waiting = clock.spawn(green.lock("x").wait(MINUTE).into_future());
    clock.advance(ttl + Duration::from_millis(41));
    drop(waiting.take().expect("free once the TTL is over").unwrap());
}
