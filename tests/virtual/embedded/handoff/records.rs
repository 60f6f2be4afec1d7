//! A request with records on the nodes has its own lease, as the nodes distinguish holders by
//! nonce.

use std::{future::Future, pin::Pin};

use tokio::sync::oneshot;
use tower_redlock::{
    Resource,
    once::{Once, OnceError},
};

use super::scene::{Scene, TTL, WAIT, granted, poll};

type Run = Pin<Box<dyn Future<Output = Result<Once<()>, OnceError<&'static str>>>>>;

/// Work for `k` that runs once, and fails on request.
fn once(scene: &Scene) -> (Run, oneshot::Sender<()>) {
    let (end, ended) = oneshot::channel();
    let work = |_| async move {
        drop(ended.await);
        Err("failed")
    };
    let mut run: Run = Box::pin(scene.redlock.once("k").ttl(TTL).wait(WAIT).run(work));
    assert!(poll(&mut run).is_pending());
    (run, end)
}

#[test]
fn once_work_hands_on_nothing() {
    let scene = Scene::new();
    let (mut run, end) = once(&scene);
    let mut plain = scene.waiter(&Resource::of_once("k").unwrap());
    end.send(()).unwrap();
    assert!(poll(&mut run).is_ready());
    drop(granted(&mut plain));
    assert_eq!(scene.leases(), 2);
}

#[test]
fn once_work_takes_over_no_lease() {
    let scene = Scene::new();
    let plain = scene.lock(&Resource::of_once("k").unwrap());
    let (mut run, end) = once(&scene);
    let (mut next, next_end) = once(&scene);

    drop(plain);

    assert!(poll(&mut run).is_pending() && poll(&mut next).is_pending());
    assert_eq!(scene.leases(), 2);

    end.send(()).unwrap();
    assert!(poll(&mut run).is_ready());

    next_end.send(()).unwrap();
    assert!(poll(&mut next).is_ready());
    assert_eq!(scene.leases(), 3);
}
