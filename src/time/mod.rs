//! Time as this crate counts it: a clock that runs on while the machine sleeps, and one timer
//! structure for everything that waits.
//!
//! A server's TTL goes on while a laptop is shut or a virtual machine is paused;
//! [`std::time::Instant`] stands still on Linux in the meantime. Every deadline is therefore a
//! [`Timestamp`] of a [`Clock`], and a timer that fires is only a hint to look at the clock again.

mod adjusted;
mod clock;
mod lateness;
mod steady;
mod timers;
mod timestamp;

pub(crate) use adjusted::AdjustedClock;
pub use clock::{Clock, SystemClock};
pub(crate) use steady::SteadyWall;
pub(crate) use timers::{Nudge, Sleep, TimerKey, Timers};
pub use timestamp::Timestamp;

/// Maximum duration of any setting. Timestamps reach beyond it.
pub(crate) const MAX_DURATION: std::time::Duration =
    std::time::Duration::from_secs(100 * 366 * 24 * 3600);
