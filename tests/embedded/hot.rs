//! One name that is leased again and again without a pause.

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_redlock::{EmbeddedNodes, FencingToken, Redlock};

use crate::support::hand_clock::HandClock;

/// More than it takes to get a minute ahead of the clock with the block of 256 of every lease.
const LEASES: usize = 260_000;
const A_LEASE: Duration = Duration::from_micros(10);

#[test]
fn a_name_that_is_leased_a_hundred_thousand_times_a_second_gets_growing_tokens() {
    // The machine's speed does not matter.
    let clock = HandClock::new();
    let nodes = EmbeddedNodes::with_clock(3, clock.clone());
    let redlock = Redlock::builder().nodes_from(&nodes).clock(clock.clone()).build().unwrap();
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
