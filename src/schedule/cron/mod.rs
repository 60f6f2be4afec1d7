//! Cron expressions, on clocks that are put forward and back.
//!
//! | part | where |
//! |---|---|
//! | what users write | [`CronSchedule`] |
//! | which local times match | `expression` |
//! | what is wrong with an expression | `fault` |
//! | when a local time is | `zone` |
//! | ticks: both together | `ticks` |

mod expression;
mod fault;
mod schedule;
mod ticks;
mod zone;

pub use schedule::CronSchedule;
pub(super) use ticks::CronTicks;
