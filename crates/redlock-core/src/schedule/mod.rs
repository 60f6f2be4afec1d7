//! When a job is due: ticks that are the same on every replica.
//!
//! A tick is identified by its scheduled time, a [`WallTime`]. Nothing here reads a clock: a
//! schedule has the same ticks on every replica and after every restart.
//!
//! ```
//! use std::time::Duration;
//! use redlock_core::schedule::{Schedule, WallTime};
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
//! # Ok::<(), redlock_core::schedule::ScheduleError>(())
//! ```
//!
//! # Errors
//!
//! A cron expression and its zone are parsed at once. Other constructors don't return a `Result`:
//! an invalid schedule, such as one with a period of zero, keeps its [`ScheduleError`] until it is
//! [checked](Schedule::check), at the latest when its job is started.
//!
//! | part | where |
//! |---|---|
//! | schedules | [`Schedule`], `CronSchedule` |
//! | custom rules | [`Recurrence`] |
//! | moments, and their dates | [`WallTime`] |
//! | texts of schedules, for display and comparison | `text` |
//! | the latest tick, missed ticks | `ticks` |
//! | cron, and clocks that change | `cron` |
//!
//! # Invariants (R12)
//!
//! * The ticks of a schedule depend on the schedule and its zone database alone: every replica
//!   computes the same ones. The jitter moves starts, not ticks, and is not part of the
//!   fingerprint.
//! * Ticks increase, and each is the next one of every moment since the one before.
//! * The text of a schedule that is stored with a claim determines its fingerprint, so any program
//!   can compute its ticks. A custom rule has only a name.
//!
//! Cron expressions follow crontab(5), and ambiguous ones are refused
//! (`docs/decisions/006-cron-parser.md`).

#[cfg(feature = "cron")]
mod cron;
mod error;
mod latest;
#[expect(clippy::module_inception, reason = "the file of the type that the module is about")]
pub mod schedule;
mod text;
mod ticks;
mod wall_time;

#[cfg(feature = "cron")]
pub use cron::{CronSchedule, zone_database_version};
pub use error::ScheduleError;
pub use schedule::{Recurrence, Schedule};
pub use ticks::Ticks;
pub use wall_time::WallTime;
