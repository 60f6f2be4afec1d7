//! Under the strict clock guard a lease also ends by the wall clock, whoever holds it by then.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tower_redlock::{
    Lock, Redlock,
    error::LossCause,
    node::EmbeddedNodes,
    time::{Clock, Timestamp},
};

use super::scene::{TTL, WAIT, granted, poll, waiting};
use crate::support::HANG_GUARD;

const WITHIN: Duration = Duration::from_millis(100);
/// TTL − (1 % + 2 ms) − 3 times what clocks may differ by.
const VALIDITY: Duration = Duration::from_millis(9_598);
/// Maximum interval between readings of the wall clock.
const LOOK: Duration = Duration::from_millis(250);
const NANO: Duration = Duration::from_nanos(1);
const MICRO: Duration = Duration::from_micros(1);

/// Two clocks, each moved by hand.
#[derive(Clone, Debug)]
struct TwoClocks {
    now: Arc<AtomicU64>,
    wall: Arc<AtomicU64>,
}

impl TwoClocks {
    fn new() -> Self {
        let start = || Arc::new(AtomicU64::new(1_700_000_000_000_000_000));
        Self { now: start(), wall: start() }
    }

    fn put_wall_forward(&self, by: Duration) {
        self.wall.fetch_add(u64::try_from(by.as_nanos()).unwrap(), Ordering::SeqCst);
    }

    fn advance(&self, by: Duration) {
        self.now.fetch_add(u64::try_from(by.as_nanos()).unwrap(), Ordering::SeqCst);
        self.put_wall_forward(by);
    }
}

impl Clock for TwoClocks {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.now.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Duration {
        Duration::from_nanos(self.wall.load(Ordering::SeqCst))
    }

    fn wait(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(1)))
    }

    fn granularity(&self) -> Duration {
        Duration::ZERO
    }
}

/// An unrenewed lock, and a waiter for it with this timeout.
fn scene() -> (TwoClocks, Redlock, Lock, tower_redlock::lock::Acquire) {
    let clock = TwoClocks::new();
    let nodes = EmbeddedNodes::with_clock(3, clock.clone());
    let builder = Redlock::builder().nodes_from(&nodes).clock(clock.clone()).ttl(TTL);
    let redlock = builder.clock_guard(WITHIN).build().unwrap();
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
    clock.put_wall_forward(early);
    drop(lock);
    let lock = granted(&mut next);
    assert_eq!(lock.fencing_token().get(), token + 1, "handed on");
    clock.put_wall_forward(VALIDITY.saturating_sub(early + MICRO));
    assert!(lock.is_valid());
    clock.put_wall_forward(MICRO);
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
        ahead.put_wall_forward(VALIDITY);
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
        clock.put_wall_forward(by);
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
    clock.put_wall_forward(VALIDITY.saturating_sub(MICRO));
    assert!(lock.is_valid());
    clock.put_wall_forward(MICRO);
    assert!(!lock.is_valid());
}
