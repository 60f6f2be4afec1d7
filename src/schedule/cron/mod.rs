//! Cron expressions, on clocks that are put forward and back.
//!
//! | part | where |
//! |---|---|
//! | what users write | [`CronSchedule`] |
//! | which local times match | `expression` |
//! | when a local time is | `zone` |
//! | ticks: both together | `ticks` |

mod expression;
mod schedule;
mod ticks;
mod zone;

pub use schedule::CronSchedule;
pub(super) use ticks::CronTicks;
