//! One name that is leased repeatedly without a pause.

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_redlock::FencingToken;

use crate::support::scene::Scene;

/// More than it takes to get a minute ahead of the clock with the block of 256 of every lease.
const LEASES: usize = 260_000;
const A_LEASE: Duration = Duration::from_micros(10);

#[test]
fn hot_name_gets_growing_tokens() {
    // The machine's speed does not matter.
    let Scene { clock, redlock, .. } = Scene::by_hand(3);
    let mut last = FencingToken::default();

    for lease in 0..LEASES {
        let granted =
            pin!(redlock.lock("hot").into_future()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(lock)) = granted else { panic!("lease {lease}: {granted:?}") };
        assert!(lock.fencing_token() > last, "lease {lease}");
        last = lock.fencing_token();
        drop(lock);
        clock.advance(A_LEASE);
    }
}
