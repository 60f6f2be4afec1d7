//! A released lock that stays with its process for the next request.

use std::{convert::Infallible, future::IntoFuture, task::Poll, time::Duration};

use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::{
    Lock, LockError, LockOptions, Redlock, RedlockLayer,
    error::LossCause,
    lock::Released,
    node::EmbeddedNodes,
    testing::{ManualClock, Nodes},
};

use super::fixture::{Fixture, NODES, TTL, VALIDITY, granted, poll};
use crate::durations::MS;

const LINGER: Duration = Duration::from_secs(1);

fn fixture() -> Fixture {
    Fixture::with(|builder| builder.linger(LINGER))
}

#[test]
fn next_request_sends_no_message() {
    let fixture = fixture();
    let first = fixture.lock("x");
    let (token, sent) = (first.fencing_token().get(), fixture.sent());
    drop(first);
    for nth in 1..=200 {
        fixture.clock.advance(Duration::from_millis(1));
        let lock = fixture.lock("x");
        assert_eq!(lock.fencing_token().get(), token + nth);
        assert!(lock.is_valid());
    }
    assert_eq!(fixture.sent(), sent);
    assert_eq!(fixture.nodes.key_counts(), [1; NODES]);
}

#[test]
fn request_and_manager_may_set_it() {
    let fixture = Fixture::new();
    drop(granted(&mut fixture.request("x").linger(LINGER).into_future()));
    assert_eq!(fixture.nodes.key_counts(), [1; NODES]);
    let fixture = self::fixture();
    drop(granted(&mut fixture.request("x").linger(Duration::ZERO).into_future()));
    assert_eq!(fixture.nodes.key_counts(), [0; NODES]);
}

/// A manager with the option in virtual time.
fn in_virtual_time(linger: Duration) -> (ManualClock, Nodes, Redlock) {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let redlock = nodes.replica("a").builder().ttl(TTL).linger(linger).build().unwrap();
    (clock, nodes, redlock)
}

fn lock(redlock: &Redlock) -> Lock {
    granted(&mut redlock.lock("x").into_future())
}

#[test]
fn it_ends_after_the_time() {
    let (clock, nodes, redlock) = in_virtual_time(LINGER);
    let first = lock(&redlock).fencing_token();
    clock.advance(LINGER.saturating_sub(MS));
    assert_eq!(nodes.key_counts(), [1; NODES]);
    clock.advance(MS);
    assert_eq!(nodes.key_counts(), [0; NODES], "released");
    assert!(lock(&redlock).fencing_token() > first);
}

#[test]
fn idle_lock_is_not_renewed() {
    let (clock, _nodes, redlock) = in_virtual_time(Duration::MAX);
    drop(lock(&redlock));
    clock.advance(VALIDITY * 2 / 5);
    let mut inspected = clock.spawn({
        let redlock = redlock.clone();
        async move { redlock.inspect("x").await }
    });
    clock.settle();

    let holder = inspected.take().unwrap().unwrap().expect("the key of the lock is stored");

    assert_eq!(holder.remaining, Some(TTL.saturating_sub(VALIDITY * 2 / 5)));
}

#[test]
fn it_ends_at_half_of_validity() {
    let (clock, nodes, redlock) = in_virtual_time(Duration::MAX);
    drop(lock(&redlock));
    clock.advance((VALIDITY / 2).saturating_sub(MS));
    assert_eq!(nodes.key_counts(), [1; NODES]);
    clock.advance(MS);
    assert_eq!(nodes.key_counts(), [0; NODES]);
}

#[test]
fn former_holder_keeps_nothing() {
    let fixture = fixture();
    let lock = fixture.lock("x");
    let (context, mut lost) = (lock.context(), lock.lost());
    assert!(poll(&mut lost).is_pending());
    assert_eq!(poll(&mut lock.release()), Poll::Ready(Ok(Released::Released)));
    assert_eq!(poll(&mut lost), Poll::Ready(LossCause::Released));
    assert_eq!(context.remaining(), Duration::ZERO);
    let next = fixture.lock("x");
    assert!(next.is_valid() && context.ensure_valid().is_err());
}

#[test]
fn other_process_ends_it() {
    let fixture = fixture();
    drop(fixture.lock("x"));
    let other = fixture.other();
    // The first node reports the refusal within the call, so that the others are free.
    let lock = granted(&mut other.lock("x").into_future());
    let refused = poll(&mut fixture.request("x").wait(Duration::ZERO).into_future());
    assert!(matches!(refused, Poll::Ready(Err(LockError::Held { .. }))), "{refused:?}");
    drop(lock);
    assert_eq!(fixture.nodes.key_counts(), [0; NODES]);
}

#[test]
fn refused_request_ends_it_after_use() {
    let fixture = fixture();
    let lock = fixture.lock("x");
    let other = fixture.other();
    let refused = poll(&mut other.lock("x").into_future());
    let Poll::Ready(Err(LockError::Held { lingers, .. })) = refused else { panic!("{refused:?}") };
    assert!(lingers, "its holder was asked");
    drop(lock);
    assert_eq!(fixture.nodes.key_counts(), [0; NODES], "a single attempt is enough");
    assert!(poll(&mut other.lock("x").into_future()).is_ready());
}

#[test]
fn pause_follows_a_request_of_others() {
    let (clock, nodes, redlock) = in_virtual_time(LINGER);
    let other = nodes.replica("b").redlock();
    drop(lock(&redlock));
    drop(granted(&mut other.lock("x").into_future()));
    for _ in 0..9 {
        drop(lock(&redlock));
        assert_eq!(nodes.key_counts(), [0; NODES], "single attempts of others succeed");
        clock.advance(MS * 100);
    }
    clock.advance(MS * 100);
    drop(lock(&redlock));
    assert_eq!(nodes.key_counts(), [1; NODES]);
}

/// The first node grants to one manager and refuses another; the other nodes answer later.
#[test]
fn request_before_the_grant_counts() {
    let (clock, nodes, redlock) = in_virtual_time(LINGER);
    let other = nodes.replica("b").redlock();
    drop(lock(&redlock));
    clock.advance(LINGER);
    nodes.freeze(1..3);
    let mut granted_later = redlock.lock("x").into_future();
    assert!(poll(&mut granted_later).is_pending());
    assert!(poll(&mut other.lock("x").into_future()).is_pending());
    nodes.thaw(1..3);
    drop(granted(&mut granted_later));
    assert_eq!(nodes.key_counts(), [0; NODES], "it does not linger");
}

#[test]
fn loss_of_reports_ends_it() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let replica = nodes.replica("a");
    let redlock = replica.builder().linger(LINGER).build().unwrap();
    drop(lock(&redlock));
    replica.partition(0..1);
    assert_eq!(nodes.key_counts(), [1; 3], "a quorum reports");
    replica.partition(1..2);
    assert_eq!(redlock.snapshot().lingering, []);
    assert_eq!(nodes.key_counts()[2], 0);
}

#[tokio::test]
async fn revocation_requests_release_first() {
    let fixture = fixture();
    drop(fixture.lock("x"));
    assert_eq!(fixture.other().revoke("x").await, Ok(Released::Released));
    assert_eq!(fixture.redlock.snapshot().lingering, []);
    assert_eq!(fixture.redlock.revoke("x").await, Ok(Released::AlreadyLost));
    let fixture = self::fixture();
    drop(fixture.lock("x"));
    assert_eq!(fixture.redlock.revoke("x").await, Ok(Released::Released), "its own");
    assert_eq!(fixture.nodes.key_counts(), [0; NODES]);
}

#[test]
fn hand_offs_have_no_other_limit() {
    let fixture = fixture();
    let lock = fixture.lock("x");
    let waiters: Vec<_> = (0..100).map(|_| fixture.waiter("x")).collect();
    drop(lock);

    for mut waiter in waiters {
        fixture.clock.advance(Duration::from_millis(10));
        drop(granted(&mut waiter));
    }

    assert_eq!(fixture.leases(), 1, "nobody else wants it");
}

#[test]
fn it_ends_with_the_block() {
    // A token for each µs of the linger, at least 256, at most 4,096.
    for (linger, block) in [(MS / 10, 256), (MS, 1_000), (LINGER, 4_096)] {
        let fixture = Fixture::with(|builder| builder.linger(linger));
        let first = fixture.lock("x").fencing_token().get();
        for nth in 1..=2 * block {
            assert_eq!(fixture.lock("x").fencing_token().get(), first + nth);
        }
        assert_eq!(fixture.leases(), 3, "{linger:?}");
    }
}

#[test]
fn bounded_number_lingers() {
    const MOST: usize = 10_000;

    let (clock, nodes, redlock) = in_virtual_time(LINGER);
    let keys = || nodes.key_counts()[0];
    let mut contexts = Vec::new();
    let mut lingers = |range: std::ops::Range<usize>| {
        let before = keys();
        for nth in range {
            let lock = granted(&mut redlock.lock(nth.to_string()).into_future());
            contexts.push(lock.context());
        }
        keys() - before
    };
    assert_eq!(lingers(0..MOST + 1), MOST);
    assert_eq!(lingers(0..MOST + 1), 0, "taken over, and kept again");
    clock.advance(LINGER);
    assert_eq!(keys(), 0, "released");
    assert_eq!(lingers(MOST..2 * MOST + 1), MOST, "the places are free, whoever keeps a context");
}

#[test]
fn busy_name_returns_after_a_second() {
    let fixture = fixture();
    for _ in 0..600 {
        let lock = fixture.lock("x");
        fixture.clock.advance(MS * 10);
        drop(lock);
    }
    assert_eq!(fixture.leases(), 3, "256 holders each: some processes can't ask for it");
}

#[test]
fn settings_are_those_of_each_request() {
    let (clock, nodes, redlock) = in_virtual_time(LINGER);
    let first = |options| granted(&mut redlock.lock("x").options(options).into_future());
    let beating = LockOptions::new().heartbeat_within(MS * 100);
    let token = first(beating).fencing_token().get();
    let lock = first(LockOptions::new());
    clock.advance(TTL * 3);
    assert!(lock.is_valid(), "it needs no heartbeat");
    drop(lock);
    let lock = first(beating);
    assert_eq!(lock.fencing_token().get(), token + 2, "taken over");
    clock.advance(TTL * 3);
    assert!(!lock.is_valid(), "it needs heartbeats");
    drop(lock);
    drop(first(LockOptions::new()));
    assert_eq!(nodes.key_counts(), [1; NODES]);
    drop(first(LockOptions::new().linger(Duration::ZERO)));
    assert_eq!(nodes.key_counts(), [0; NODES], "the last request keeps nothing");
}

#[test]
fn other_names_or_ttl_end_it() {
    let fixture = fixture();
    let set = ["a", "b"];
    drop(fixture.lock(set));
    assert_eq!(fixture.nodes.key_counts(), [2; NODES]);
    drop(fixture.lock(set));
    assert_eq!(fixture.leases(), 1);
    let lock = fixture.lock("b");
    assert_eq!((fixture.leases(), fixture.nodes.key_counts()), (2, [1; NODES].to_vec()));
    drop(lock);
    let lock = fixture.lock(set);
    assert_eq!(fixture.leases(), 3, "the second name lingered");
    drop(lock);
    let lock = granted(&mut fixture.request(set).ttl(TTL / 2).into_future());
    assert_eq!(fixture.leases(), 4);
    assert!(lock.remaining() < TTL / 2);
}

#[test]
fn next_holder_has_its_own_limit() {
    let (clock, nodes, redlock) = in_virtual_time(LINGER);
    let request = || redlock.lock("x").max_hold(LINGER).into_future();
    drop(granted(&mut request()));
    clock.advance(LINGER / 2);
    let lock = granted(&mut request());
    assert_eq!(lock.remaining(), LINGER);
    clock.advance(LINGER);
    assert!(!lock.is_valid());
    drop(lock);
    assert_eq!(nodes.key_counts(), [0; NODES], "a lost lock does not linger");
}

#[test]
fn gap_in_the_reports_ends_it() {
    let clock = ManualClock::new();
    let nodes = Nodes::new(3, &clock);
    let replica = nodes.replica("a");
    let redlock = replica.builder().linger(LINGER).build().unwrap();
    let held = lock(&redlock);
    clock.advance(MS);
    replica.partition(0..2);
    replica.heal(0..2);
    drop(held);
    assert_eq!(nodes.key_counts(), [0; NODES], "a request of others may have been missed");
    clock.advance(MS);
    drop(lock(&redlock));
    assert_eq!(nodes.key_counts(), [1; NODES]);
}

#[tokio::test]
async fn shutdown_releases_it() {
    let fixture = fixture();
    drop(fixture.lock("x"));
    assert_eq!(fixture.redlock.snapshot().lingering.len(), 1);
    assert_eq!(fixture.redlock.snapshot().locks, []);
    fixture.redlock.shutdown().await;
    assert_eq!(fixture.nodes.key_counts(), [0; NODES]);
    assert_eq!(fixture.redlock.snapshot().lingering, []);
}

#[tokio::test]
async fn holder_reports_that_it_may_linger() {
    let fixture = fixture();
    drop(fixture.lock("x"));
    let holder =
        fixture.other().inspect("x").await.unwrap().expect("the key of the lock is stored");
    assert!(holder.lingers && holder.is_quorum);
    let fixture = Fixture::new();
    let _lock = fixture.lock("x");
    assert!(!fixture.other().inspect("x").await.unwrap().unwrap().lingers);
}

#[tokio::test]
async fn layer_may_set_it() {
    let fixture = Fixture::new();
    let layer = RedlockLayer::new(fixture.redlock.clone(), |_: &u32| "x").linger(LINGER);
    let mut service = layer.layer(service_fn(async |n: u32| Ok::<_, Infallible>(n)));
    for n in 0..10 {
        assert_eq!(service.ready().await.unwrap().call(n).await.unwrap(), n);
    }
    assert_eq!(fixture.leases(), 1);
}

#[test]
fn wakeups_are_needed() {
    let nodes = EmbeddedNodes::new(5);
    let builder = || Redlock::builder().nodes_from(&nodes);
    let error = builder().wakeups(false).linger(LINGER).build().unwrap_err().to_string();
    assert!(error.contains("linger") && error.contains("wakeups"), "{error}");
    let redlock = builder().wakeups(false).build().unwrap();
    let refused = poll(&mut redlock.lock("x").linger(LINGER).into_future());
    assert!(matches!(refused, Poll::Ready(Err(LockError::InvalidRequest(_)))), "{refused:?}");
}
