//! Dropped futures that watch a lock leave no waker with it.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
};

use tower_redlock::{LockError, error::LossCause, node::Op};

use crate::{
    hard_stop::fixture::{NANO, Scene, VALIDITY, Woken, poll},
    support::mock_node::Withheld,
};

const MANY: usize = 10_000;

/// Polls a future once with a waker of `woken`; the caller drops it with the statement.
#[track_caller]
fn polled_and_dropped(woken: &Arc<Woken>, mut future: Pin<&mut impl Future>) {
    let task = Waker::from(Arc::clone(woken));
    assert!(future.as_mut().poll(&mut Context::from_waker(&task)).is_pending());
    assert!(Arc::strong_count(woken) > 2, "the lock has the waker");
}

#[test]
fn dropped_lost_futures_leave_no_waker() {
    let Scene { clock, redlock, .. } = Scene::without_timers(5);
    let Poll::Ready(Ok(lock)) = poll(pin!(redlock.lock("x").into_future())) else { panic!() };
    let (gone, alive) = (Arc::<Woken>::default(), Arc::<Woken>::default());
    let mut lost = lock.lost();
    let task = Waker::from(Arc::clone(&alive));
    assert!(Pin::new(&mut lost).poll(&mut Context::from_waker(&task)).is_pending());
    for _ in 0..MANY {
        polled_and_dropped(&gone, pin!(lock.lost()));
        assert_eq!(Arc::strong_count(&gone), 1);
    }
    // Repeated polls register once.
    for _ in 0..MANY {
        assert!(Pin::new(&mut lost).poll(&mut Context::from_waker(&task)).is_pending());
    }
    assert_eq!(Arc::strong_count(&alive), 3, "ours, the task's and the lock's");
    assert_eq!(poll(pin!(lock.extend())), Poll::Ready(Ok(VALIDITY)));
    assert!(Pin::new(&mut lost).poll(&mut Context::from_waker(&task)).is_pending());
    let before = alive.0.load(Ordering::SeqCst);
    clock.advance(VALIDITY);
    let after = poll(pin!(lock.extend()));
    assert!(matches!(after, Poll::Ready(Err(LockError::Lost { .. }))), "{after:?}");
    assert_eq!(alive.0.load(Ordering::SeqCst), before + 1, "the watcher is woken");
    assert_eq!(gone.0.load(Ordering::SeqCst), 0, "the dropped one is not");
    let cause = poll(Pin::new(&mut lost));
    assert!(matches!(cause, Poll::Ready(LossCause::Expired { .. })), "{cause:?}");
}

/// A manager, and the answers to its operations but acquires, which are withheld.
fn slow() -> (Scene, Withheld) {
    let withheld = Withheld::default();
    let node = |inner| withheld.node(&inner, |op| !matches!(op, Op::Acquire(_)));
    (Scene::without_timers(3).over(|builder| builder.fencing(false), node), withheld)
}

#[test]
fn dropped_extensions_leave_no_waker() {
    let (Scene { clock, redlock, .. }, answers) = slow();
    let Poll::Ready(Ok(lock)) = poll(pin!(redlock.lock("x").into_future())) else { panic!() };
    let woken = Arc::<Woken>::default();
    for _ in 0..MANY {
        clock.advance(NANO);
        polled_and_dropped(&woken, pin!(lock.extend()));
        assert_eq!(Arc::strong_count(&woken), 1);
    }
    assert_eq!(answers.count(), 3 * MANY, "each sends to all nodes");
    answers.deliver();
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    assert_eq!(lock.remaining(), VALIDITY, "they continued without their futures");
    clock.advance(VALIDITY / 2);
    let mut extend = pin!(lock.extend());
    assert!(poll(extend.as_mut()).is_pending());
    answers.deliver();
    assert_eq!(poll(extend), Poll::Ready(Ok(VALIDITY)));
}

#[test]
fn dropped_releases_leave_no_waker() {
    let (Scene { redlock, .. }, answers) = slow();
    let Poll::Ready(Ok(lock)) = poll(pin!(redlock.lock("x").into_future())) else { panic!() };
    let woken = Arc::<Woken>::default();
    polled_and_dropped(&woken, pin!(lock.release()));
    assert_eq!(Arc::strong_count(&woken), 1);
    answers.deliver();
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
}
