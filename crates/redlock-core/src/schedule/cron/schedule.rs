//! Cron schedules.

use std::{sync::Arc, time::Duration};

use super::ticks::CronTicks;
use crate::schedule::{
    error::ScheduleError,
    schedule::{Rule, Schedule},
};

/// The ticks of a cron expression; see [`Schedule::cron`].
///
/// ```
/// # use redlock_core as tower_redlock;
/// use tower_redlock::{schedule::WallTime, Schedule};
///
/// let nightly: Schedule = Schedule::cron("0 3 * * *")?.in_tz("Europe/Berlin")?.into();
/// // Midnight UTC of 1 July 2025; in Berlin it is then two o'clock.
/// let midnight = WallTime::from_millis(1_751_328_000_000);
/// let three = WallTime::from_millis(1_751_328_000_000 + 3_600_000);
/// assert_eq!(nightly.next(midnight, None), Some(three));
///
/// let never = Schedule::cron("0 0 30 2 *").unwrap_err();
/// assert!(never.to_string().contains("0 0 30 2 *"));
/// # Ok::<(), redlock_core::schedule::ScheduleError>(())
/// ```
///
/// # Expressions
///
/// Five fields (minute, hour, day of month, month, day of week), or six with the second first, in
/// the syntax of Vixie cron, crontab(5), with the additions below. Ambiguous expressions that Vixie
/// cron accepts are refused.
///
/// | in a field | what | refused |
/// |---|---|---|
/// | `*` | every value | as a part of a list |
/// | `5`, `FRI`, `JAN` | one value; Sunday is 0 and 7. Names are the first three letters of a month or day, in either case, in their own field | `0 9 FRI * *`, `MONDAY`, `?` |
/// | `9-17`, `MON-FRI` | a range with both ends | one that goes backwards. Only `SUN` may end a range of days that it may begin as well: `SAT-SUN`, but not `SUN-SUN` |
/// | `*/15`, `9-17/2` | every so many from the first value on, anew in each hour, day, month, … | a step that leaves only the first value, as `*/90`; one without a range, as `5/15` |
/// | `1,15,20-25` | a list of these | an empty entry |
/// | `L`, `LW` | the last day of the month, the last one from Monday to Friday | an `L` alone in the day of week |
/// | `15W` | the day from Monday to Friday that is nearest to the 15th in the same month | |
/// | `FRI#2`, `FRIL` | the second Friday of the month, the last one | more than one day before the `#` or `L` |
///
/// `@yearly` (or `@annually`), `@monthly`, `@weekly`, `@daily` (or `@midnight`) and `@hourly` stand
/// for `0 0 1 1 *`, `0 0 1 * *`, `0 0 * * 0`, `0 0 * * *` and `0 * * * *`. `@reboot` is refused: a
/// fleet has no start of its own.
///
/// # Day of month and day of week
///
/// If both are restricted, **either one suffices**: `0 0 1 * MON` is the first of the month and
/// every Monday. A field that begins with `*` is not restricted, even with a step, and then **both
/// have to match**: `0 0 */2 * MON` is each Monday with an odd date. With a `+` before the day of
/// week, both have to match as well: `0 0 1-7 * +MON`. A field that always matches beside a
/// restricted one (`0 0 1-31 * MON`) is refused, and so is a list of days that contains `*/2`, as
/// its meaning would depend on the order.
///
/// # When the clocks change
///
/// | expression | in the gap of spring | in the fold of autumn |
/// |---|---|---|
/// | fixed times, as `30 2 * * *` or `0 2,14 * * *` | once, at the first valid time after the gap | once, the first time |
/// | intervals: `*` or `/` in the second, minute or hour, as `*/30 * * * *` | skipped | both times, in order |
///
/// The zone database is part of the program: replicas of the same build have the same ticks on any
/// machine. The last ticks are in the year 9999.
#[derive(Clone, Debug)]
#[must_use = "a cron schedule does nothing until a job has it"]
pub struct CronSchedule {
    expression: String,
    ticks: Arc<CronTicks>,
}

impl Schedule {
    /// Creates a schedule of a cron expression, in UTC or in a given [zone](CronSchedule::in_tz).
    ///
    /// # Errors
    ///
    /// [`ScheduleError`] if the expression is invalid, or no date matches it.
    #[doc(alias = "crontab")]
    pub fn cron(expression: impl Into<String>) -> Result<CronSchedule, ScheduleError> {
        CronSchedule::new(expression.into())
    }

    /// Creates a schedule of a cron expression in a time zone, by its name in the IANA database:
    /// `Schedule::cron_in("0 3 * * *", "Europe/Berlin")`.
    ///
    /// # Errors
    ///
    /// As of [`cron`](Self::cron), and [`ScheduleError::UnknownZone`].
    pub fn cron_in(
        expression: impl Into<String>,
        zone: impl AsRef<str>,
    ) -> Result<CronSchedule, ScheduleError> {
        Self::cron(expression)?.in_tz(zone)
    }
}

impl CronSchedule {
    pub(in crate::schedule) fn new(expression: String) -> Result<Self, ScheduleError> {
        let ticks = Arc::new(CronTicks::new(expression.clone(), "UTC")?);
        Ok(Self { expression, ticks })
    }

    /// Sets the time zone, by its name in the IANA database. Default: UTC, whatever the machine's
    /// time zone is.
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
        Self::new(Ok(Rule::Cron(cron.ticks)))
    }
}
