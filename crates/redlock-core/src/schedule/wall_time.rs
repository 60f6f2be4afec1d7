//! Moments of the wall clock in milliseconds, and their dates.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A time of the wall clock, in whole milliseconds since the Unix epoch; it identifies a tick.
///
/// From [`ZERO`](WallTime::ZERO), the epoch, to [`MAX`](WallTime::MAX), the end of the year 9999. Times
/// outside are clamped, so arithmetic does not overflow. Unlike a
/// [`Timestamp`](crate::timestamp::Timestamp), it may jump, and machines share it.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// # use redlock_core as tower_redlock;
/// use tower_redlock::schedule::WallTime;
///
/// let time = WallTime::from(SystemTime::UNIX_EPOCH + Duration::from_micros(1_999));
/// assert_eq!(time, WallTime::from_millis(1));
/// assert_eq!(time.to_string(), "1970-01-01T00:00:00.001Z");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

/// Milliseconds of a day.
pub(super) const DAY: u64 = 86_400_000;

impl WallTime {
    /// The Unix epoch: before every tick.
    pub const ZERO: Self = Self(0);
    /// The last millisecond of the year 9999 (UTC).
    pub const MAX: Self = Self(253_402_300_799_999);

    /// Returns the time `millis` milliseconds after the Unix epoch, at most [`WallTime::MAX`].
    pub const fn from_millis(millis: u64) -> Self {
        if millis > Self::MAX.0 { Self::MAX } else { Self(millis) }
    }

    /// Returns the time `elapsed` after the Unix epoch, rounded down, at most [`WallTime::MAX`].
    pub fn since_epoch(elapsed: Duration) -> Self {
        Self::from_millis(millis(elapsed))
    }

    /// Returns the milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the time rounded up; `None` if it is not after the epoch, or after
    /// [`WallTime::MAX`].
    pub(super) fn not_before(time: SystemTime) -> Option<Self> {
        let elapsed = time.duration_since(UNIX_EPOCH).ok()?;
        let millis = u64::try_from(elapsed.as_nanos().div_ceil(1_000_000)).ok()?;
        (1..=Self::MAX.0).contains(&millis).then_some(Self(millis))
    }

    /// Returns the sum; `None` if it is after [`WallTime::MAX`].
    pub(super) fn plus(self, millis: u64) -> Option<Self> {
        self.0.checked_add(millis).filter(|sum| *sum <= Self::MAX.0).map(Self)
    }
}

/// Rounded down; [`WallTime::ZERO`] for a moment before the epoch.
impl From<SystemTime> for WallTime {
    fn from(time: SystemTime) -> Self {
        Self::since_epoch(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl From<WallTime> for SystemTime {
    fn from(time: WallTime) -> Self {
        // Every supported system counts its time well beyond the year 9999.
        UNIX_EPOCH + Duration::from_millis(time.0)
    }
}

/// In the format of RFC 3339, in UTC: `2025-11-21T09:34:46Z`, with three more digits unless it is a
/// whole second.
impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `MAX` is far below `i64::MAX`.
        let Date { year, month, day } = Date::from_days((self.0 / DAY).cast_signed());
        write!(f, "{year:04}-{month:02}-{day:02}T")?;
        let (seconds, millis) = (self.0 % DAY / 1_000, self.0 % 1_000);
        write!(f, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
        match millis {
            0 => f.write_str("Z"),
            _ => write!(f, ".{millis:03}Z"),
        }
    }
}

/// Rounded down.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Days of 400 years, after which the calendar repeats itself, weekdays included.
const DAYS_OF_ERA: i64 = 146_097;
/// From the first day of March of the year 0 to the Unix epoch.
const EPOCH: i64 = 719_468;

/// A date of the Gregorian calendar. Source: H. Hinnant, *chrono-Compatible Low-Level Date
/// Algorithms*, `civil_from_days` and `days_from_civil`. Years begin in March there, so a leap day
/// is the last day of its year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: i64,
    /// From 1 to 12.
    pub(super) month: i64,
    /// From 1 to 31.
    pub(super) day: i64,
}

impl Date {
    /// Returns the date `days` days after 1 January 1970.
    pub(super) const fn from_days(days: i64) -> Self {
        let shifted = days + EPOCH;
        let era = shifted.div_euclid(DAYS_OF_ERA);
        let of_era = shifted.rem_euclid(DAYS_OF_ERA);
        let leap_days = of_era / 1_460 - of_era / 36_524 + of_era / 146_096;
        let year_of_era = (of_era - leap_days) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let january_or_february = if month <= 2 { 1 } else { 0 };
        Self { year: era * 400 + year_of_era + january_or_february, month, day }
    }
}

#[cfg(feature = "cron")]
impl Date {
    /// Days since 1 January 1970.
    pub(super) const fn days(self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let from_march = if self.month > 2 { self.month - 3 } else { self.month + 9 };
        let of_year = (153 * from_march + 2) / 5 + self.day - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        era * DAYS_OF_ERA + of_era - EPOCH
    }

    /// Returns the first day of the month after this date's.
    pub(super) const fn next_month(self) -> Self {
        match self.month {
            12 => Self { year: self.year + 1, month: 1, day: 1 },
            month => Self { year: self.year, month: month + 1, day: 1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_out_of_range_are_clamped() {
        assert_eq!(WallTime::from_millis(u64::MAX), WallTime::MAX);
        assert_eq!(WallTime::since_epoch(Duration::MAX), WallTime::MAX);
        assert_eq!(WallTime::from(UNIX_EPOCH - Duration::from_secs(1)), WallTime::ZERO);
        assert_eq!(WallTime::from(SystemTime::from(WallTime::MAX)), WallTime::MAX);
        assert_eq!(WallTime::MAX.plus(1), None);
        assert_eq!(WallTime::ZERO.plus(u64::MAX), None);
    }

    #[test]
    fn not_before_rounds_up() {
        let after = |nanos| WallTime::not_before(UNIX_EPOCH + Duration::from_nanos(nanos));

        assert_eq!(after(0), None);
        assert_eq!(after(1), Some(WallTime(1)));
        assert_eq!(after(1_000_000), Some(WallTime(1)));
        assert_eq!(after(1_000_001), Some(WallTime(2)));
        assert_eq!(WallTime::not_before(UNIX_EPOCH - Duration::from_secs(1)), None);
        let end = SystemTime::from(WallTime::MAX);

        assert_eq!(WallTime::not_before(end), Some(WallTime::MAX));
        assert_eq!(WallTime::not_before(end + Duration::from_nanos(1)), None);
    }

    #[cfg(feature = "cron")]
    #[test]
    fn dates_are_those_of_another_calendar() {
        use jiff::{ToSpan as _, civil};

        let epoch = civil::date(1970, 1, 1);
        // The whole range, in steps of a prime; and each day around the epoch.
        let all = (-700_000_i64..2_932_896).step_by(997).chain(-1_000..30_000);
        for days in all {
            let other = epoch.checked_add(days.days()).unwrap();
            let date = Date::from_days(days);
            let expected = (other.year().into(), other.month().into(), other.day().into());
            assert_eq!((date.year, date.month, date.day), expected, "{days}");
            assert_eq!(date.days(), days);
            let month = date.next_month();
            assert_eq!(Date::from_days(month.days()), month);
            assert_eq!(Date::from_days(month.days() - 1).month, date.month);
        }
    }
}
