use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{Clock, Timestamp};

/// A clock that can be put forward, once it turns out to have stood still: a virtual machine that
/// was paused may not know it. Every deadline comes earlier by that.
#[derive(Debug)]
pub(crate) struct AdjustedClock {
    clock: Arc<dyn Clock>,
    ahead: AtomicU64,
}

impl AdjustedClock {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, ahead: AtomicU64::new(0) }
    }

    pub(crate) fn put_forward(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.ahead.fetch_add(nanos, Ordering::AcqRel);
    }

    fn ahead(&self) -> Duration {
        Duration::from_nanos(self.ahead.load(Ordering::Acquire))
    }
}

impl Clock for AdjustedClock {
    fn now(&self) -> Timestamp {
        self.clock.now() + self.ahead()
    }

    fn wall(&self) -> Duration {
        self.clock.wall()
    }

    fn wait(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.clock.wait(until.minus(self.ahead()))
    }
}
