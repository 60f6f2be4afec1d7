//! A release wakes the tasks that wait for the end of the lock.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
};

use tower_redlock::{
    Lock, Redlock,
    error::LossCause,
    lock::{Lost, Released},
    node::EmbeddedNodes,
};

use crate::hard_stop::tools::{Scene, Woken, poll};

/// A lock, and a future that waits for its end.
fn watched(redlock: &Redlock, woken: &Arc<Woken>) -> (Lock, Lost) {
    let Poll::Ready(Ok(lock)) = poll(pin!(redlock.lock("x").into_future())) else { panic!() };
    let mut lost = lock.lost();
    let task = Waker::from(Arc::clone(woken));
    assert!(Pin::new(&mut lost).poll(&mut Context::from_waker(&task)).is_pending());
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    (lock, lost)
}

#[track_caller]
fn assert_told(woken: &Woken, mut lost: Lost, nodes: &EmbeddedNodes) {
    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "woken, and once");
    assert_eq!(poll(Pin::new(&mut lost)), Poll::Ready(LossCause::Released));
    assert_eq!(nodes.key_counts(), [0; 5]);
}

#[test]
fn drop_wakes_watchers() {
    let Scene { redlock, nodes, .. } = Scene::without_timers(5);
    let woken = Arc::<Woken>::default();
    let (lock, lost) = watched(&redlock, &woken);
    drop(lock);
    assert_told(&woken, lost, &nodes);
}

#[test]
fn awaited_release_wakes_watchers() {
    let Scene { redlock, nodes, .. } = Scene::without_timers(5);
    let woken = Arc::<Woken>::default();
    let (lock, lost) = watched(&redlock, &woken);
    assert_eq!(poll(pin!(lock.release())), Poll::Ready(Ok(Released::Released)));
    assert_told(&woken, lost, &nodes);
}

#[test]
fn unawaited_release_wakes_watchers() {
    let Scene { redlock, nodes, .. } = Scene::without_timers(5);
    let woken = Arc::<Woken>::default();
    let (lock, lost) = watched(&redlock, &woken);
    drop(lock.release());
    assert_told(&woken, lost, &nodes);
}
