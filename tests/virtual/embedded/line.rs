//! The queue of local waiters.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Instant,
};

use tower_redlock::{LockError, Redlock, node::EmbeddedNodes};

use crate::{
    fixture::{Woken, poll},
    support::HANG_GUARD,
};

fn owner_told(result: &Poll<Result<impl Sized, LockError>>) -> Option<&str> {
    match result {
        Poll::Ready(Err(LockError::Held { owner, .. })) => owner.as_deref(),
        Poll::Ready(Err(other)) => panic!("{other:?}"),
        Poll::Ready(Ok(_)) => panic!("two have it"),
        Poll::Pending => panic!("a single attempt waits"),
    }
}

#[tokio::test]
async fn waiting_set_does_not_block_names() {
    let nodes = EmbeddedNodes::new(3);
    let manager = |owner: &str| Redlock::builder().nodes_from(&nodes).owner(owner).build().unwrap();
    let (stranger, ourselves) = (manager("stranger"), manager("ourselves"));
    let b = stranger.lock("b").await.unwrap();
    let mut set = ourselves.lock(["a", "b"]).wait(HANG_GUARD).into_future();
    assert!(poll(&mut set).is_pending(), "its first attempt has failed at b");
    assert_eq!(nodes.key_counts(), [1; 3], "a is free");
    let single = poll(&mut ourselves.lock("a").into_future());
    assert_eq!(owner_told(&single), Some("ourselves"));
    // The holder of a single name is known.
    let mut alone = ourselves.lock("c").wait(HANG_GUARD).into_future();
    let c = stranger.lock("c").await.unwrap();
    assert!(poll(&mut alone).is_pending());
    let single = poll(&mut ourselves.lock("c").into_future());
    assert_eq!(owner_told(&single), Some("stranger"));
    drop((b, c));
    drop((set.await.unwrap(), alone.await.unwrap()));
    assert_eq!(nodes.key_counts(), [0; 3]);
}

#[tokio::test]
async fn full_line_rejects_with_holder() {
    let nodes = EmbeddedNodes::new(3);
    let builder = Redlock::builder().nodes_from(&nodes).owner("we");
    let redlock = builder.max_waiters(2).max_waiters_in_total(3).build().unwrap();
    let waiting = |name: &str| redlock.lock(name).wait(HANG_GUARD).into_future();
    let turned_away = |name: &str| match poll(&mut waiting(name)) {
        Poll::Ready(Err(LockError::Held { expires_in, owner, .. })) => {
            assert_eq!(owner.as_deref(), Some("we"));
            assert!(expires_in.is_some());
        }
        other => panic!("not turned away: {other:?}"),
    };
    let a = redlock.lock("a").await.unwrap();
    let b = redlock.lock("b").await.unwrap();
    let (mut first, mut second) = (waiting("a"), waiting("a"));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    turned_away("a");
    let mut third = waiting("b");
    assert!(poll(&mut third).is_pending());
    // There is room in the queue of "b", but not in all queues together.
    turned_away("b");
    // A waiter that leaves, or gets its turn, makes room.
    drop(second);
    let mut next = waiting("b");
    assert!(poll(&mut next).is_pending());
    turned_away("a");
    drop(a);
    let a = first.await.unwrap();
    let mut again = waiting("a");
    assert!(poll(&mut again).is_pending());
    drop((a, b, third, next, again));
}

#[tokio::test]
async fn waiters_for_other_processes_count_too() {
    let nodes = EmbeddedNodes::new(3);
    let stranger = Redlock::builder().nodes_from(&nodes).owner("stranger").build().unwrap();
    let builder = Redlock::builder().nodes_from(&nodes).owner("we");
    let redlock = builder.max_waiters_in_total(2).build().unwrap();
    let mut held = Vec::new();
    for name in ["a", "b", "c"] {
        held.push(stranger.lock(name).await.unwrap());
    }
    let waiting = |name: &str| redlock.lock(name).wait(HANG_GUARD).into_future();
    let (mut a, mut b) = (waiting("a"), waiting("b"));
    assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
    let turned_away = waiting("c").await;
    assert_eq!(owner_told(&Poll::Ready(turned_away)), Some("stranger"));
    // There is no room in a queue either.
    assert_eq!(owner_told(&poll(&mut waiting("a"))), Some("stranger"));
    drop(b);
    let mut c = waiting("c");
    assert!(poll(&mut c).is_pending());
    held.clear();
    drop((a.await.unwrap(), c.await.unwrap()));
}

#[tokio::test]
async fn ten_thousand_leave_in_any_order() {
    const WAITERS: usize = 10_000;
    let builder = Redlock::builder().nodes_from(&EmbeddedNodes::new(3));
    let builder = builder.max_waiters(WAITERS + 1).max_waiters_in_total(WAITERS + 1);
    let redlock = builder.build().unwrap();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let lock = redlock.lock("x").await.unwrap();
    let waiting = || {
        let mut waiting = redlock.lock("x").wait(HANG_GUARD * 10).into_future();
        let polled = Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        waiting
    };
    let mut others: Vec<_> = (0..WAITERS).map(|_| waiting()).collect();
    let last = waiting();
    let started = Instant::now();
    others.drain(WAITERS / 3..WAITERS / 2);
    while let Some(other) = others.pop() {
        drop(other);
    }
    // Scanning all waiters for each one would take minutes.
    assert!(started.elapsed() < HANG_GUARD);
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    drop(lock);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "the only one left");
    drop(last.await.unwrap());
}
