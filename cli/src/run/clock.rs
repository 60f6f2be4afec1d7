//! The clock that `run` and its watchdog share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the machine's start, suspended time included; all processes see the same.
pub(super) fn now() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}
