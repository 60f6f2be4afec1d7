use std::{sync::Arc, time::Duration};

use super::ticks::CronTicks;
use crate::schedule::{Schedule, ScheduleError};

/// The ticks of a cron expression; see [`Schedule::cron`].
///
/// ```
/// use tower_redlock::schedule::{Schedule, WallTime};
///
/// let nightly: Schedule = Schedule::cron("0 3 * * *")?.in_tz("Europe/Berlin")?.into();
/// // Midnight UTC of 1 July 2025; in Berlin it is then two o'clock.
/// let midnight = WallTime::from_millis(1_751_328_000_000);
/// let three = WallTime::from_millis(1_751_328_000_000 + 3_600_000);
/// assert_eq!(nightly.next(midnight, None), Some(three));
///
/// let never = Schedule::cron("0 0 30 2 *").unwrap_err();
/// assert!(never.to_string().contains("0 0 30 2 *"));
/// # Ok::<(), tower_redlock::schedule::ScheduleError>(())
/// ```
///
/// # Expressions
///
/// Five fields (minute, hour, day of month, month, day of week), or six with the second first:
/// `*`, lists, ranges, steps, names of months and days, `L`, `W`, `#`; and `@yearly`, `@monthly`,
/// `@weekly`, `@daily`, `@hourly`. Where both the day of month and the day of week are given, either
/// one is enough; with `+` before the day of week, both are needed. Sunday is 0 and 7.
///
/// # When the clocks change
///
/// | expression | in the gap of spring | in the fold of autumn |
/// |---|---|---|
/// | fixed times, as `30 2 * * *` or `0 2,14 * * *` | once, at the first valid time after the gap | once, the first time |
/// | intervals: `*` or `/` in the second, minute or hour, as `*/30 * * * *` | skipped | both times, in order |
///
/// The zone database is part of the program: replicas of the same build have the same ticks,
/// whatever is installed on their machines. There are no ticks after the year 4999.
#[derive(Clone, Debug)]
#[must_use = "a cron schedule does nothing until a job has it"]
pub struct CronSchedule {
    expression: String,
    ticks: Arc<CronTicks>,
}

impl CronSchedule {
    pub(in crate::schedule) fn new(expression: String) -> Result<Self, ScheduleError> {
        let ticks = Arc::new(CronTicks::new(expression.clone(), "UTC")?);
        Ok(Self { expression, ticks })
    }

    /// Reads the expression in the time zone of this name in the IANA database; UTC by default,
    /// never the machine's own.
    ///
    /// # Errors
    ///
    /// [`ScheduleError::UnknownZone`].
    pub fn in_tz(self, zone: impl AsRef<str>) -> Result<Self, ScheduleError> {
        let ticks = Arc::new(CronTicks::new(self.expression.clone(), zone.as_ref())?);
        Ok(Self { ticks, ..self })
    }

    /// See [`Schedule::jitter`].
    pub fn jitter(self, limit: Duration) -> Schedule {
        Schedule::from(self).jitter(limit)
    }
}

impl From<CronSchedule> for Schedule {
    fn from(cron: CronSchedule) -> Self {
        Self::of_cron(cron.ticks)
    }
}
