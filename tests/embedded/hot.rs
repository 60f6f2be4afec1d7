//! One name that is leased again and again without a pause.

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_redlock::{
    EmbeddedNodes, FencingToken, Redlock,
    time::{Clock, Timestamp},
};

/// More than it takes to get a minute ahead of the clock with the block of 256 of every lease.
const LEASES: usize = 260_000;
const A_LEASE: Duration = Duration::from_micros(10);

/// Moved by hand, so that the machine's speed does not matter.
#[derive(Clone, Debug)]
struct HandClock {
    micros: Arc<AtomicU64>,
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.wall()
    }

    fn wall(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::SeqCst))
    }
}

#[test]
fn hot_name_gets_growing_tokens() {
    let clock = HandClock { micros: Arc::new(AtomicU64::new(1_700_000_000_000_000)) };
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
        clock.micros.fetch_add(u64::try_from(A_LEASE.as_micros()).unwrap(), Ordering::SeqCst);
    }
}
