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
        let further = |ahead: u64| Some(ahead.saturating_add(nanos));
        let _ = self.ahead.fetch_update(Ordering::AcqRel, Ordering::Acquire, further);
    }

    /// By how much it has been put forward, all in all.
    pub(crate) fn ahead(&self) -> Duration {
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
        self.clock.wait(until.saturating_sub(self.ahead()))
    }

    fn granularity(&self) -> Duration {
        self.clock.granularity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stands at 10 s, and says how long it is to be waited for.
    #[derive(Debug, Default)]
    struct Still(std::sync::Mutex<Vec<Timestamp>>);

    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::ZERO + Duration::from_secs(10)
        }

        fn wall(&self) -> Duration {
            Duration::from_secs(1_000)
        }

        fn wait(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            self.0.lock().unwrap().push(until);
            Box::pin(async {})
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn it_is_ahead_by_all_that_it_was_put_forward_and_the_wall_clock_is_left_alone() {
        let clock = AdjustedClock::new(Arc::new(Still::default()));
        assert_eq!(clock.now(), at(10));
        clock.put_forward(Duration::from_secs(3));
        clock.put_forward(Duration::from_secs(4));
        assert_eq!(clock.now(), at(17));
        assert_eq!(clock.wall(), Duration::from_secs(1_000));
        clock.put_forward(Duration::MAX);
        assert!(clock.now() >= at(17), "it never goes back");
    }

    #[tokio::test]
    async fn waits_end_earlier_by_that() {
        let still = Arc::new(Still::default());
        let clock = AdjustedClock::new(Arc::clone(&still) as Arc<dyn Clock>);
        clock.wait(at(30)).await;
        clock.put_forward(Duration::from_secs(5));
        clock.wait(at(30)).await;
        clock.wait(at(3)).await;
        assert_eq!(*still.0.lock().unwrap(), [at(30), at(25), Timestamp::ZERO]);
    }
}
