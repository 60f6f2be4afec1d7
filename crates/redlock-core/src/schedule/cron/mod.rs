//! Cron expressions in time zones whose clocks change.
//!
//! | part | where |
//! |---|---|
//! | cron schedules | [`CronSchedule`] |
//! | which local times match | `expression` |
//! | one field: numbers, names, ranges, steps | `field` |
//! | which dates match: months, days, `L`, `W`, `#` | `days` |
//! | the ticks in a time zone | `ticks` |
//! | time zones | `zones` |

mod days;
mod expression;
mod field;
mod schedule;
pub(super) mod ticks;
mod zones;

pub use schedule::CronSchedule;
pub use zones::zone_database_version;
