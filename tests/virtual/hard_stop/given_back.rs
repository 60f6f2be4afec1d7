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
};

use crate::hard_stop::fixture::{Scene, Woken, poll};

/// A lock, and a future that waits for its end.
fn watched(redlock: &Redlock, woken: &Arc<Woken>) -> (Lock, Lost) {
    let Poll::Ready(Ok(lock)) = poll(pin!(redlock.lock("x").into_future())) else { panic!() };
    let mut lost = lock.lost();
    let task = Waker::from(Arc::clone(woken));
    assert!(Pin::new(&mut lost).poll(&mut Context::from_waker(&task)).is_pending());
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    (lock, lost)
}

#[test]
fn release_wakes_watchers() {
    type End = fn(Lock);
    let ends: [(&str, End); 3] = [
        ("dropped", drop),
        ("awaited", |lock| {
            assert_eq!(poll(pin!(lock.release())), Poll::Ready(Ok(Released::Released)));
        }),
        ("not awaited", |lock| drop(lock.release())),
    ];
    for (name, end) in ends {
        let Scene { redlock, nodes, .. } = Scene::without_timers(5);
        let woken = Arc::<Woken>::default();
        let (lock, mut lost) = watched(&redlock, &woken);
        end(lock);
        assert_eq!(woken.0.load(Ordering::SeqCst), 1, "{name}: the watcher is woken once");
        assert_eq!(poll(Pin::new(&mut lost)), Poll::Ready(LossCause::Released), "{name}");
        assert_eq!(nodes.key_counts(), [0; 5], "{name}");
    }
}
