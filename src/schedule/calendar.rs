//! The Gregorian calendar, in days since the Unix epoch.
//!
//! Source: H. Hinnant, *chrono-Compatible Low-Level Date Algorithms*, `civil_from_days` and
//! `days_from_civil`. Years begin in March there, so a leap day is the last day of its year.

/// Days of 400 years, after which the calendar repeats itself, weekdays included.
const DAYS_OF_ERA: i64 = 146_097;
/// From the first day of March of the year 0 to the Unix epoch.
const EPOCH: i64 = 719_468;

/// A date of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: i64,
    /// From 1 to 12.
    pub(super) month: i64,
    /// From 1 to 31.
    pub(super) day: i64,
}

impl Date {
    /// The date `days` days after 1 January 1970.
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

    /// The first day of the month after this date's.
    pub(super) const fn next_month(self) -> Self {
        match self.month {
            12 => Self { year: self.year + 1, month: 1, day: 1 },
            month => Self { year: self.year, month: month + 1, day: 1 },
        }
    }
}

#[cfg(all(test, feature = "cron"))]
mod tests {
    use jiff::{ToSpan as _, civil};

    use super::*;

    #[test]
    fn dates_are_those_of_another_calendar() {
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
