//! The [`Clock`] trait, and the operating system's clock.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::Timestamp;

/// Maximum duration of a timer: timers don't count suspended time, while the clock and the servers'
/// TTLs do.
pub(super) const MAX_TIMER: Duration = Duration::from_millis(250);

/// The source of time.
///
/// [`now`](Clock::now) decides every deadline. [`wall`](Clock::wall) may jump; it is used for dates
/// that people read, schedules, and fencing tokens over nodes whose clocks are unknown.
///
/// [`now`](Clock::now), [`wall`](Clock::wall) and [`granularity`](Clock::granularity) are called
/// while internal mutexes are held: an implementation must not call this crate from them, and must
/// not block.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the current moment. Never moves back, and counts suspended time.
    fn now(&self) -> Timestamp;

    /// Returns the wall clock, as the time since the Unix epoch.
    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Waits until about `until`. May return early; the caller reads [`now`](Clock::now) again. The
    /// default is a tokio timer of at most 250 ms.
    ///
    /// Called only inside the crate's own runtime.
    fn wait(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let left = until.saturating_duration_since(self.now()).min(MAX_TIMER);
        Box::pin(async move { tokio::time::sleep(left).await })
    }

    /// Returns the clock for a manager or a node to keep. Default: the clock itself.
    #[doc(hidden)]
    fn into_kept(self) -> Arc<dyn Clock>
    where
        Self: Sized,
    {
        Arc::new(self)
    }

    /// Returns the maximum delay of [`wait`](Clock::wait) on an idle machine. The hard stop is
    /// scheduled earlier by this delay and 1 ms, so that guarded work is dropped before the end of
    /// its validity.
    ///
    /// The default is 2 ms, as tokio rounds both a deadline and the current time to whole
    /// milliseconds. Zero means that waits end exactly on time, as on a manual clock; the hard stop
    /// is then at the end of the validity.
    fn granularity(&self) -> Duration {
        Duration::from_millis(2)
    }
}

/// The operating system's clock, suspended time included: `CLOCK_BOOTTIME` on Linux and Android,
/// `CLOCK_MONOTONIC` on the other Unixes (which counts sleep on Apple's systems),
/// [`std::time::Instant`] elsewhere.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SystemClock;

impl SystemClock {
    /// Creates the clock.
    pub const fn new() -> Self {
        Self
    }
}

impl Clock for SystemClock {
    #[cfg(unix)]
    fn now(&self) -> Timestamp {
        use rustix::time::{ClockId, clock_gettime};

        #[cfg(any(target_os = "linux", target_os = "android"))]
        const CLOCK: ClockId = ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const CLOCK: ClockId = ClockId::Monotonic;

        let time = clock_gettime(CLOCK);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Timestamp::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    #[cfg(not(unix))]
    fn now(&self) -> Timestamp {
        use std::{sync::LazyLock, time::Instant};

        static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        Timestamp::ZERO + ORIGIN.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_never_goes_back() {
        let clock = SystemClock::new();
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
