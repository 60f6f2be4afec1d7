//! A manual clock, which may also run with an offset from another clock.
#![allow(dead_code, reason = "several test binaries share this file, and each uses a part of it")]

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use tower_redlock::{
    Redlock, RedlockBuilder,
    lock::Spawner,
    time::{Clock, SystemClock, Timestamp},
};

/// A clock whose monotonic time and wall clock are each fixed until the test moves them, or run with
/// an offset from a base clock. Clones share their times.
#[derive(Clone, Debug)]
pub(crate) struct HandClock {
    base: Arc<dyn Clock>,
    times: Arc<Mutex<Times>>,
    granularity: Duration,
    is_watched: bool,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    now: Shown,
    wall: Shown,
}

/// How a time is shown, in nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Shown {
    Fixed(i64),
    /// Ahead of the base clock.
    Ahead(i64),
}

impl Shown {
    fn at(self, base: i64) -> i64 {
        match self {
            Self::Fixed(time) => time,
            Self::Ahead(by) => base + by,
        }
    }

    fn advance(&mut self, by: Duration) {
        let (Self::Fixed(time) | Self::Ahead(time)) = self;
        *time += nanos(by);
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap()
}

impl HandClock {
    /// A clock with fixed times, whose movements the crate's timers notice.
    pub(crate) fn new() -> Self {
        let start = Shown::Fixed(1_700_000_000_000_000_000);
        let times = Arc::new(Mutex::new(Times { now: start, wall: start }));
        Self { times, granularity: Duration::ZERO, ..Self::system() }
    }

    /// Creates a clock for a manager without timers: only readings of the clock stop work.
    pub(crate) fn unwatched() -> Self {
        Self { is_watched: false, ..Self::new() }
    }

    /// Runs as the system's clock.
    pub(crate) fn system() -> Self {
        Self::over(SystemClock::new())
    }

    /// Runs as `base`, with the granularity of tokio's timers.
    pub(crate) fn over(base: impl Clock) -> Self {
        let times = Arc::new(Mutex::new(Times { now: Shown::Ahead(0), wall: Shown::Ahead(0) }));
        let granularity = Duration::from_millis(2);
        Self { base: Arc::new(base), times, granularity, is_watched: true }
    }

    /// The system's clock, with a wall clock that is ahead by `millis`.
    pub(crate) fn skewed(millis: i64) -> Self {
        let clock = Self::system();
        clock.times().wall = Shown::Ahead(millis * 1_000_000);
        clock
    }

    pub(crate) fn with_granularity(self, granularity: Duration) -> Self {
        Self { granularity, ..self }
    }

    /// Moves both times.
    pub(crate) fn advance(&self, by: Duration) {
        self.times().now.advance(by);
        self.advance_wall(by);
    }

    /// Moves the wall clock alone.
    pub(crate) fn advance_wall(&self, by: Duration) {
        self.times().wall.advance(by);
    }

    /// The wall clock shows this time until it is moved.
    pub(crate) fn set_wall(&self, time: Duration) {
        self.times().wall = Shown::Fixed(nanos(time));
    }

    /// The wall clock runs ahead of the base clock.
    pub(crate) fn set_wall_ahead(&self, by: Duration) {
        self.times().wall = Shown::Ahead(nanos(by));
    }

    /// The wall clock runs behind the base clock.
    pub(crate) fn set_wall_behind(&self, by: Duration) {
        self.times().wall = Shown::Ahead(-nanos(by));
    }

    /// Stops the monotonic time. The wall clock continues.
    pub(crate) fn hold(&self) {
        let base = self.base_now();
        let now = &mut self.times().now;
        *now = Shown::Fixed(now.at(base));
    }

    /// Continues from the time at which the clock was held.
    pub(crate) fn go_on(&self) {
        let base = self.base_now();
        let now = &mut self.times().now;
        *now = Shown::Ahead(now.at(base) - base);
    }

    /// A builder on this clock, without a thread where the clock is unwatched.
    pub(crate) fn builder(&self) -> RedlockBuilder {
        let builder = Redlock::builder().clock(self.clone());
        if self.is_watched { builder } else { builder.spawner(NoSpawner) }
    }

    /// The reference shows whether a clone still exists.
    pub(crate) fn downgrade(&self) -> Weak<dyn Clock> {
        Arc::downgrade(&self.base)
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap()
    }

    fn base_now(&self) -> i64 {
        i64::try_from(self.base.now().as_nanos()).unwrap()
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        let base = self.base_now();
        Timestamp::from_nanos(u64::try_from(self.times().now.at(base)).unwrap())
    }

    fn wall(&self) -> Duration {
        let base = nanos(self.base.wall());
        Duration::from_nanos(u64::try_from(self.times().wall.at(base)).unwrap())
    }

    fn wait(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let shown = self.times().now;
        match shown {
            Shown::Fixed(_) => Box::pin(tokio::time::sleep(Duration::from_millis(1))),
            Shown::Ahead(by) => {
                let until = until.as_nanos().saturating_add_signed(-by);
                self.base.wait(Timestamp::from_nanos(until))
            }
        }
    }

    fn granularity(&self) -> Duration {
        self.granularity
    }
}

/// Drops every task: no timer ever fires.
#[derive(Debug)]
pub(crate) struct NoSpawner;

impl Spawner for NoSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(task);
    }
}
