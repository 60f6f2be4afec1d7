//! A request with records on the nodes has its own lease, as the nodes distinguish holders by
//! nonce.

use std::{future::Future, pin::Pin};

use tokio::sync::oneshot;
use tower_redlock::{
    Resource,
    once::{Once, OnceError},
};

use super::fixture::{Fixture, TTL, WAIT, granted, poll};

type Run = Pin<Box<dyn Future<Output = Result<Once<()>, OnceError<&'static str>>>>>;

/// Work for `k` that runs once, and fails on request.
fn once(fixture: &Fixture) -> (Run, oneshot::Sender<()>) {
    let (end, ended) = oneshot::channel();
    let work = |_| async move {
        drop(ended.await);
        Err("failed")
    };
    let mut run: Run = Box::pin(fixture.redlock.once("k").ttl(TTL).wait(WAIT).run(work));
    assert!(poll(&mut run).is_pending());
    (run, end)
}

#[test]
fn once_work_hands_on_nothing() {
    let fixture = Fixture::new();
    let (mut run, end) = once(&fixture);
    let mut plain = fixture.waiter(&Resource::of_once("k").unwrap());
    end.send(()).unwrap();
    assert!(poll(&mut run).is_ready());
    drop(granted(&mut plain));
    assert_eq!(fixture.leases(), 2);
}

#[test]
fn once_work_takes_over_no_lease() {
    let fixture = Fixture::new();
    let plain = fixture.lock(&Resource::of_once("k").unwrap());
    let (mut run, end) = once(&fixture);
    let (mut next, next_end) = once(&fixture);
    drop(plain);
    assert!(poll(&mut run).is_pending() && poll(&mut next).is_pending());
    assert_eq!(fixture.leases(), 2);
    end.send(()).unwrap();
    assert!(poll(&mut run).is_ready());
    next_end.send(()).unwrap();
    assert!(poll(&mut next).is_ready());
    assert_eq!(fixture.leases(), 3);
}
