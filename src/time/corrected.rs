//! Clocks that correct another clock for pauses that it did not count, or for steps back.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use super::{Clock, Timestamp};
use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A clock that is put forward by pauses that it did not count, such as pauses of a virtual
/// machine.
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

    /// The sum of all corrections.
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

/// A wall clock that does not move back when the system's clock is set back.
#[derive(Debug)]
pub(crate) struct MonotonicWall {
    clock: Arc<dyn Clock>,
    /// Maximum of the wall clock minus the clock, in µs.
    most: AtomicI64,
    /// See [`set_back_by`](Self::set_back_by), in µs.
    back: AtomicU64,
    /// When the wall clock was last read, in ns.
    read_at: AtomicU64,
}

/// Maximum age of a reading of the wall clock that [`MonotonicWall::at_least`] uses.
const RECENT: u64 = 1_000_000;

impl MonotonicWall {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let [back, read_at] = [0, 0].map(AtomicU64::new);
        let steady = Self { clock, most: AtomicI64::new(i64::MIN), back, read_at };
        steady.read(steady.now());
        steady
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the time since the Unix epoch at `at`, the time of the clock that was just read.
    pub(crate) fn read(&self, at: Timestamp) -> Duration {
        let wall = i64::try_from(self.clock.wall().as_micros()).unwrap_or(i64::MAX);
        let now = i64::try_from(at.as_nanos() / 1_000).unwrap_or(i64::MAX);
        let ahead = wall.saturating_sub(now);
        let mut most = self.most.load(Ordering::Relaxed);
        if ahead > most {
            most = self.most.fetch_max(ahead, Ordering::Relaxed).max(ahead);
        }
        let back = u64::try_from(most.saturating_sub(ahead)).unwrap_or(0);
        if back != self.back.load(Ordering::Relaxed) {
            self.back.store(back, Ordering::Relaxed);
        }
        self.read_at.store(at.as_nanos(), Ordering::Relaxed);
        Duration::from_micros(u64::try_from(now.saturating_add(most)).unwrap_or(0))
    }

    /// Returns a lower bound of the time since the Unix epoch at `now`, which was just read. It is
    /// the time itself, unless the wall clock was set forward less than 1 ms ago: only an older
    /// reading of it is repeated.
    pub(crate) fn at_least(&self, now: Timestamp) -> Duration {
        let age = now.as_nanos().wrapping_sub(self.read_at.load(Ordering::Relaxed));
        if age >= RECENT {
            return self.read(now);
        }
        let now = i64::try_from(now.as_nanos() / 1_000).unwrap_or(i64::MAX);
        let wall = now.saturating_add(self.most.load(Ordering::Relaxed));
        Duration::from_micros(u64::try_from(wall).unwrap_or(0))
    }

    /// Returns how far the wall clock was below its maximum when it was last read.
    pub(crate) fn set_back_by(&self) -> Duration {
        Duration::from_micros(self.back.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that shows 10 s and records the ends of waits, which no other mock clock does.
    #[derive(Debug, Default)]
    struct FixedClock(std::sync::Mutex<Vec<Timestamp>>);

    impl Clock for FixedClock {
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
    fn corrections_add_up() {
        let clock = AdjustedClock::new(Arc::new(FixedClock::default()));
        assert_eq!(clock.now(), at(10));
        clock.put_forward(Duration::from_secs(3));
        clock.put_forward(Duration::from_secs(4));
        assert_eq!(clock.now(), at(17));
        assert_eq!(clock.wall(), Duration::from_secs(1_000));
        clock.put_forward(Duration::MAX);
        assert!(clock.now() >= at(17), "it never goes back");
    }

    #[tokio::test]
    async fn waits_end_earlier() {
        let still = Arc::new(FixedClock::default());
        let clock = AdjustedClock::new(Arc::clone(&still) as Arc<dyn Clock>);
        clock.wait(at(30)).await;
        clock.put_forward(Duration::from_secs(5));
        clock.wait(at(30)).await;
        clock.wait(at(3)).await;
        assert_eq!(*still.0.lock().unwrap(), [at(30), at(25), Timestamp::ZERO]);
    }
}

#[cfg(all(test, feature = "testing"))]
mod wall_tests {
    use super::*;
    use crate::testing::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);
    const NOON: Duration = Duration::from_secs(1_700_000_000);

    #[test]
    fn wall_clock_never_goes_back() {
        let clock = ManualClock::new();
        clock.set_wall(NOON);
        let steady = MonotonicWall::new(Arc::new(clock.clone()));
        let read = || steady.read(steady.now());

        clock.advance(SECOND);

        assert_eq!((read(), steady.set_back_by()), (NOON + SECOND, Duration::ZERO));

        clock.set_wall(NOON.saturating_sub(SECOND));
        assert_eq!((read(), steady.set_back_by()), (NOON + SECOND, 2 * SECOND));

        clock.advance(SECOND);
        assert_eq!((read(), steady.set_back_by()), (NOON + 2 * SECOND, 2 * SECOND));

        clock.set_wall(Duration::ZERO);
        assert_eq!(read(), NOON + 2 * SECOND);

        clock.set_wall(NOON + 60 * SECOND);
        assert_eq!((read(), steady.set_back_by()), (NOON + 60 * SECOND, Duration::ZERO));
    }

    #[test]
    fn recent_reading_is_not_repeated() {
        let clock = ManualClock::new();
        clock.set_wall(NOON);
        let steady = MonotonicWall::new(Arc::new(clock.clone()));
        let at_least = || steady.at_least(steady.now());
        let moment = Duration::from_micros(999);

        clock.advance(moment);
        clock.set_wall(NOON + SECOND);

        assert_eq!(at_least(), NOON + moment, "a lower bound");

        clock.advance(Duration::from_micros(1));

        assert_eq!(at_least(), NOON + SECOND + Duration::from_micros(1));
    }
}
