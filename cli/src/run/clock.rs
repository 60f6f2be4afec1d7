//! The end of the lock, on the clock that `run` and its watchdog share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Time between the latest kill of the command and the end of the lock.
pub(super) const KILL_MARGIN: Duration = Duration::from_millis(100);
/// Interval between signals to processes that are being killed.
pub(super) const KILL_AGAIN: Duration = Duration::from_millis(5);

/// The time at which the lock ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LockEnd(Duration);

impl LockEnd {
    /// Returns the end of a lock with this remaining validity.
    pub(super) fn of(remaining: impl FnOnce() -> Duration) -> Self {
        // The clock is read first, so that the end is not later than the end of the lock.
        let now = now();
        Self(now + remaining())
    }

    /// Returns the time until the command must be killed.
    pub(super) fn kill_in(self) -> Duration {
        self.0.saturating_sub(KILL_MARGIN).saturating_sub(now())
    }
}

/// Returns the time since the machine's start, suspended time included; all processes see the same.
fn now() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}
