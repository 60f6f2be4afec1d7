//! A clock that counts suspended time, and one timer structure for everything that waits.
//!
//! A server's TTL runs while a laptop is suspended or a virtual machine is paused;
//! [`std::time::Instant`] does not on Linux. Every deadline is therefore a [`Timestamp`] of a
//! [`Clock`], and a timer that fires is only a hint to read the clock again.
//!
//! Attempts, renewals, deadlines and pauses wait in one ordered map (`timers`), whose task sleeps
//! until the earliest entry. While anything waits, the clock is read at least every 250 ms: timers do
//! not advance while a machine is suspended, but `CLOCK_BOOTTIME`, which deadlines use, and the
//! servers' TTLs do.

mod clock;
mod corrected;
mod timers;

pub use clock::{Clock, SystemClock};
pub(crate) use corrected::{AdjustedClock, MonotonicWall};
#[doc(inline)]
pub use redlock_core::timestamp::Timestamp;
pub(crate) use timers::{Nudge, Sleep, TimerKey, Timers};

/// Maximum duration of any setting. Timestamps reach beyond it.
pub(crate) const MAX_DURATION: std::time::Duration =
    std::time::Duration::from_secs(100 * 366 * 24 * 3600);
