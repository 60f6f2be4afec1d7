//! When a job is due: ticks that are the same on every replica.
//!
//! A tick is identified by its scheduled time, a [`WallTime`]. Nothing here reads a clock: a schedule
//! has the same ticks on every replica and after every restart.
//!
//! ```
//! use std::time::Duration;
//! use tower_redlock::{schedule::WallTime, Schedule};
//!
//! let schedule = Schedule::every(Duration::from_secs(60));
//! schedule.check()?;
//! let now = WallTime::from_millis(150_500);
//! assert_eq!(schedule.next(now, None), Some(WallTime::from_millis(180_000)));
//! assert_eq!(schedule.latest(now), Some(WallTime::from_millis(120_000)));
//!
//! // Ticks since another one: the oldest first, or with `rev` the newest.
//! let missed = schedule.ticks(WallTime::ZERO, now);
//! assert_eq!(missed.rev().take(1).next(), Some(WallTime::from_millis(120_000)));
//! # Ok::<(), tower_redlock::schedule::ScheduleError>(())
//! ```
//!
//! # Errors
//!
//! A cron expression and its zone are parsed at once. Other constructors don't return a `Result`: an
//! invalid schedule, such as one with a period of zero, keeps its [`ScheduleError`] until it is
//! [checked](Schedule::check), at the latest when its job is started.

#[cfg(feature = "cron")]
#[doc(inline)]
pub use redlock_core::schedule::{CronSchedule, zone_database_version};
#[doc(inline)]
pub use redlock_core::schedule::{Recurrence, ScheduleError, Ticks, WallTime};

pub(crate) use redlock_core::schedule::Schedule;
