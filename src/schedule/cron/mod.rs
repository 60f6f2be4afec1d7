//! Cron expressions, on clocks that are put forward and back.
//!
//! | part | where |
//! |---|---|
//! | what users write | [`CronSchedule`] |
//! | which local times match | `expression` |
//! | one field: numbers, names, ranges, steps | `field` |
//! | which dates match: months, days, `L`, `W`, `#` | `days` |
//! | when a local time is; ticks | `ticks` |

mod days;
mod expression;
mod field;
mod schedule;
mod ticks;

pub use schedule::CronSchedule;
pub(super) use ticks::CronTicks;
