use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{Clock, Timestamp};

/// A wall clock that never goes back: where the clock's is set back, this one goes on.
#[derive(Debug)]
pub(crate) struct SteadyWall {
    clock: Arc<dyn Clock>,
    /// The most by which the wall clock was ahead of the clock, in µs.
    most: AtomicI64,
    /// How far the wall clock was set back, as last seen, in µs.
    back: AtomicU64,
}

impl SteadyWall {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let steady = Self { clock, most: AtomicI64::new(i64::MIN), back: AtomicU64::new(0) };
        steady.read(steady.now());
        steady
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The time since the Unix epoch at a moment that was just read.
    pub(crate) fn read(&self, now: Timestamp) -> Duration {
        let wall = i64::try_from(self.clock.wall().as_micros()).unwrap_or(i64::MAX);
        let now = i64::try_from(now.as_nanos() / 1_000).unwrap_or(i64::MAX);
        let ahead = wall.saturating_sub(now);
        let mut most = self.most.load(Ordering::Relaxed);
        if ahead > most {
            most = self.most.fetch_max(ahead, Ordering::Relaxed).max(ahead);
        }
        let back = u64::try_from(most.saturating_sub(ahead)).unwrap_or(0);
        if back != self.back.load(Ordering::Relaxed) {
            self.back.store(back, Ordering::Relaxed);
        }
        Duration::from_micros(u64::try_from(now.saturating_add(most)).unwrap_or(0))
    }

    /// How far the wall clock was set back when it was last read.
    pub(crate) fn back(&self) -> Duration {
        Duration::from_micros(self.back.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::testing::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);
    const NOON: Duration = Duration::from_secs(1_700_000_000);

    #[test]
    fn it_goes_on_where_the_wall_clock_goes_back() {
        let clock = ManualClock::new();
        clock.set_wall(NOON);
        let steady = SteadyWall::new(Arc::new(clock.clone()));
        let read = || steady.read(steady.now());
        clock.advance(SECOND);
        assert_eq!((read(), steady.back()), (NOON + SECOND, Duration::ZERO));
        clock.set_wall(NOON.saturating_sub(SECOND));
        assert_eq!((read(), steady.back()), (NOON + SECOND, 2 * SECOND));
        clock.advance(SECOND);
        assert_eq!((read(), steady.back()), (NOON + 2 * SECOND, 2 * SECOND));
        clock.set_wall(Duration::ZERO);
        assert_eq!(read(), NOON + 2 * SECOND);
        clock.set_wall(NOON + 60 * SECOND);
        assert_eq!((read(), steady.back()), (NOON + 60 * SECOND, Duration::ZERO));
    }
}
