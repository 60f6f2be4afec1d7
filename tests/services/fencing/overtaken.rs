//! Requests that are still running when a newer token comes.

use std::{
    convert::Infallible,
    future::{pending, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tower::{Layer, Service, ServiceExt, service_fn};
use tower_redlock::fencing::FencingServiceError;

use crate::fencing::fixture::{Woken, Write, layer, overtaken, stale};

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Counts down when it is dropped.
struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn overtaken_request_is_woken_and_dropped() {
    let (polls, alive) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (counted, living) = (Arc::clone(&polls), Arc::clone(&alive));
    let mut service = layer().layer(service_fn(move |write: Write| {
        living.fetch_add(1, Ordering::SeqCst);
        let (polls, alive) = (Arc::clone(&counted), Alive(Arc::clone(&living)));
        poll_fn(move |_| {
            let _alive = &alive;
            polls.fetch_add(1, Ordering::SeqCst);
            if write.token < Some(7) { Poll::Pending } else { Poll::Ready(Ok::<_, Infallible>(())) }
        })
    }));
    let mut old = pin!(service.call(Write::new(["a", "b"], 5)));
    let mut peer = pin!(service.call(Write::new(["b"], 5)));
    let mut other = pin!(service.call(Write::new(["c"], 5)));
    let woken = [(); 3].map(|()| Arc::<Woken>::default());
    let wakers = woken.each_ref().map(|woken| Waker::from(Arc::clone(woken)));
    for _ in 0..2 {
        assert!(old.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
        assert!(peer.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
        assert!(other.as_mut().poll(&mut Context::from_waker(&wakers[2])).is_pending());
    }
    assert_eq!(polls.load(Ordering::SeqCst), 6);

    // An equal token, and one that is refused, do not affect the running request.
    let mut equal = pin!(service.call(Write::new(["b"], 5)));
    assert!(poll(equal.as_mut()).is_pending());
    assert_eq!(
        service.call(Write::new(["b"], 4)).await,
        Err(FencingServiceError::Fencing(stale(4, 5)))
    );
    assert_eq!(woken.each_ref().map(|woken| woken.count()), [0, 0, 0]);

    // It overtakes from the call on, before it is polled.
    let newer = service.call(Write::new(["b"], 7));
    assert_eq!(woken.each_ref().map(|woken| woken.count()), [1, 1, 0]);
    let before = polls.load(Ordering::SeqCst);
    assert_eq!(alive.load(Ordering::SeqCst), 5);
    let is_overtaken = Poll::Ready(Err(FencingServiceError::Fencing(overtaken(5, 7))));
    assert_eq!(poll(old.as_mut()), is_overtaken);
    assert_eq!(alive.load(Ordering::SeqCst), 4, "it is dropped when its caller is told");
    assert_eq!(poll(peer.as_mut()), is_overtaken);
    assert_eq!(poll(equal.as_mut()), is_overtaken);
    assert_eq!(polls.load(Ordering::SeqCst), before, "none of them was polled");
    assert_eq!(newer.await, Ok(()));
    assert!(poll(other.as_mut()).is_pending());
    // The part of the old request in `a` has ended as well.
    assert_eq!(service.call(Write::new(["a"], 7)).await, Ok(()));
}

#[tokio::test]
async fn overtaken_before_first_poll_never_polls() {
    let polls = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&polls);
    let mut service = layer().layer(service_fn(move |_: Write| {
        let polls = Arc::clone(&counted);
        async move {
            polls.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(())
        }
    }));

    let old = service.call(Write::new(["a"], 1));

    assert_eq!(service.call(Write::new(["a"], 2)).await, Ok(()));
    assert_eq!(old.await, Err(FencingServiceError::Fencing(overtaken(1, 2))));
    assert_eq!(polls.load(Ordering::SeqCst), 1);
}

#[test]
fn running_poll_keeps_its_result() {
    // Each poll admits a newer request from inside the service.
    type Shared = Arc<Mutex<Option<Box<dyn FnMut() + Send>>>>;
    for finishes in [true, false] {
        let inside: Shared = Arc::default();
        let during = Arc::clone(&inside);
        let mut service = layer().layer(service_fn(move |_: Write| {
            let inside = Arc::clone(&during);
            poll_fn(move |_| {
                let newer = inside.lock().unwrap().take();
                if let Some(mut newer) = newer {
                    newer();
                }
                if finishes { Poll::Ready(Ok::<_, Infallible>("done")) } else { Poll::Pending }
            })
        }));
        let mut old = pin!(service.call(Write::new(["a"], 1)));
        let mut clone = service.clone();
        *inside.lock().unwrap() = Some(Box::new(move || drop(clone.call(Write::new(["a"], 2)))));
        let expected =
            if finishes { Ok("done") } else { Err(FencingServiceError::Fencing(overtaken(1, 2))) };
        assert_eq!(poll(old.as_mut()), Poll::Ready(expected));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_thread_stops_a_busy_request() {
    let service = layer().layer(service_fn(|write: Write| async move {
        if write.token == Some(1) { pending().await } else { Ok::<_, Infallible>(()) }
    }));
    for _ in 0..200 {
        let service = layer().layer(*service.get_ref());
        let old = tokio::spawn(service.clone().oneshot(Write::new(["a"], 1)));
        tokio::task::yield_now().await;
        let newer = tokio::spawn(service.oneshot(Write::new(["a"], 2)));
        assert_eq!(newer.await.unwrap(), Ok(()));
        let old = old.await.unwrap();
        let ends =
            [overtaken(1, 2), stale(1, 2)].map(|error| Err(FencingServiceError::Fencing(error)));
        assert!(ends.contains(&old), "{old:?}");
    }
}
