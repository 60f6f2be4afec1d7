//! More attempts than the nodes can answer, in virtual time.

use std::{future::IntoFuture, sync::atomic::Ordering, time::Duration};

use tower_redlock::{
    LockError, Redlock,
    error::{Reason, VoteOutcome},
    testing::{ManualClock, Task},
};

use crate::durations::{MINUTE, SECOND};
use crate::fixture::{Fixture, counted};

const TIMEOUT: Duration = Duration::from_millis(50);

/// Initial limit of attempts in flight.
const LIMIT: usize = 256;

fn attempt_each(clock: &ManualClock, redlock: &Redlock, names: usize) -> Vec<Task<Error>> {
    let attempt = |i| {
        let request = redlock.lock(format!("name:{i}")).into_future();
        clock.spawn(async move { request.await.err() })
    };
    (0..names).map(attempt).collect()
}

type Error = Option<LockError>;

fn is_overloaded(error: &Error) -> bool {
    let Some(LockError::NoQuorum { votes }) = error else { panic!("{error:?}") };
    let overloaded = VoteOutcome::NotCounted(Reason::Overloaded);
    votes.iter().all(|vote| vote.outcome == overloaded)
}

#[tokio::test]
async fn attempts_beyond_the_limit_wait() {
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let (redlock, acquires) = counted(&clock, &nodes.replica("green").redlock(), |builder| builder);
    nodes.freeze(0..3);
    let tasks = attempt_each(&clock, &redlock, LIMIT + 100);
    clock.settle();
    assert_eq!(acquires.load(Ordering::Relaxed), 3 * LIMIT);
    nodes.thaw(0..3);
    clock.settle();
    assert_eq!(acquires.load(Ordering::Relaxed), 3 * (LIMIT + 100));
    assert!(
        tasks.into_iter().all(|mut task| task.take().expect("the request needs no time").is_none())
    );
}

#[tokio::test]
async fn single_attempts_without_permit_end() {
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let (redlock, acquires) = counted(&clock, &nodes.replica("green").redlock(), |builder| builder);
    nodes.freeze(0..3);
    let tasks = attempt_each(&clock, &redlock, 4 * LIMIT);
    clock.advance(3 * TIMEOUT);
    let errors = tasks.into_iter().map(|mut task| task.take().expect("the attempt has timed out"));
    let overloaded = errors.filter(is_overloaded).count();
    let sent = acquires.load(Ordering::Relaxed) / nodes.len();
    assert_eq!(sent, 4 * LIMIT - overloaded);
    assert!(sent <= LIMIT * 3 / 2, "the limit is lower after time-outs: {sent}");
    nodes.thaw(0..3);
    clock.settle();
    drop(redlock.lock("after").await.unwrap());
}

#[tokio::test]
async fn tries_without_answers_back_off() {
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let (redlock, acquires) = counted(&clock, &nodes.replica("green").redlock(), |builder| builder);
    nodes.freeze(0..3);
    let mut waiting = clock.spawn(redlock.lock("x").wait(10 * MINUTE).into_future());
    clock.advance(MINUTE);
    // A second and a timeout each, after some shorter ones.
    let tries = acquires.load(Ordering::Relaxed) / nodes.len();
    assert!((50..80).contains(&tries), "{tries} tries");
    nodes.thaw(0..3);
    clock.advance(2 * SECOND);
    drop(waiting.take().expect("the nodes answer again").unwrap());
}

#[tokio::test]
async fn many_waiters_share_the_fallback() {
    const WAITERS: usize = 1_000;
    const TTL: Duration = Duration::from_millis(300);
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let blue = nodes.replica("blue").builder().ttl(10 * MINUTE).build().unwrap();
    let (green, acquires) =
        counted(&clock, &nodes.replica("green").redlock(), |builder| builder.ttl(TTL));
    let mut held = Vec::new();
    for i in 0..WAITERS {
        held.push(blue.lock(format!("name:{i}")).await.unwrap());
    }
    let waiting: Vec<_> = (0..WAITERS)
        .map(|i| clock.spawn(green.lock(format!("name:{i}")).wait(9 * MINUTE).into_future()))
        .collect();
    clock.advance(SECOND / 2);
    acquires.store(0, Ordering::Relaxed);
    clock.advance(SECOND / 2);
    let tries = acquires.load(Ordering::Relaxed) / nodes.len();
    // After a third of the TTL each, it would be 4,000.
    // One a millisecond at most, with jitter.
    assert!((300..1_000).contains(&tries), "{tries} tries in half a second");
    drop(held);
    clock.settle();
    for mut task in waiting {
        drop(task.take().expect("woken by the release").unwrap());
    }
}
