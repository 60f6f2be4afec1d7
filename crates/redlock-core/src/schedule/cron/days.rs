//! The date fields of a cron expression.

use super::field::{DAY, Fault, Field, MONTH, Values, WEEKDAY, entries, has};
use crate::schedule::wall_time::Date;

/// The dates that match: the last three fields of an expression.
#[derive(Debug, Default)]
pub(super) struct Days {
    months: Values,
    dates: Values,
    last_day: bool,
    last_workday: bool,
    /// Days for which the nearest workday matches.
    nearest_workday: Values,
    weekdays: Values,
    /// Weekdays that match once a month, by [`nth`].
    nth_weekdays: Values,
    last_weekdays: Values,
    /// Whether both the day of month and the day of week must match.
    both: bool,
}

/// All bits from 1 to 31, 1 to 12, and 0 to 6.
const ALL_DAYS: Values = (1 << 32) - 2;
const ALL_MONTHS: Values = (1 << 13) - 2;
const ALL_WEEKDAYS: Values = (1 << 7) - 1;
/// 1 January 1970.
const THURSDAY: i64 = 4;
const SATURDAY: i64 = 6;
const SUNDAY: i64 = 0;

impl Days {
    /// Parses fields in upper case. The error has the wrong field, and what is wrong with it.
    pub(super) fn parse(day: &str, month: &str, weekday: &str) -> Result<Self, Fault> {
        let (plus, weekday) = match weekday.strip_prefix('+') {
            Some(weekday) => (true, weekday),
            None => (false, weekday),
        };
        // Vixie cron: a field that begins with a star restricts nothing by itself.
        let both = plus || day.starts_with('*') || weekday.starts_with('*');
        let mut this = Self { both, months: MONTH.list(month)?, ..Self::default() };
        for entry in entries(day) {
            entry.and_then(|entry| this.add_day(entry)).map_err(|reason| (&DAY, reason))?;
        }
        for entry in entries(weekday) {
            entry.and_then(|entry| this.add_weekday(entry)).map_err(|reason| (&WEEKDAY, reason))?;
        }
        // The meaning of such a list would depend on whether it begins with the star.
        for (field, text, instead) in [(&DAY, day, "1-31"), (&WEEKDAY, weekday, "0-6")] {
            if text.contains(',')
                && let Some(step) = text.split(',').find_map(|entry| entry.strip_prefix("*/"))
            {
                let reason = format!("*/{step} is part of a list: write {instead}/{step}");
                return Err((field, reason));
            }
        }
        if !both && this.dates == ALL_DAYS {
            return Err((&DAY, useless(day, &WEEKDAY)));
        }
        if !both && this.weekdays == ALL_WEEKDAYS {
            return Err((&WEEKDAY, useless(weekday, &DAY)));
        }
        Ok(this)
    }

    fn add_day(&mut self, entry: &str) -> Result<(), String> {
        match entry.strip_suffix('W') {
            Some("L") => self.last_workday = true,
            Some(day) => {
                let day = DAY.value(day).map_err(|_| {
                    format!("{entry} is no workday: write one day before the W, as 15W, or LW")
                })?;
                self.nearest_workday |= 1 << day;
            }
            None if entry == "L" => self.last_day = true,
            None => self.dates |= DAY.values(entry)?,
        }
        Ok(())
    }

    fn add_weekday(&mut self, entry: &str) -> Result<(), String> {
        let one = |day: &str| WEEKDAY.value(day).map(|day| i64::from(day % 7));
        if let Some((day, n)) = entry.split_once('#') {
            let before = match n {
                "1" => 0,
                "2" => 1,
                "3" => 2,
                "4" => 3,
                "5" => 4,
                "L" => return Err(format!("{entry} is not of cron: write {day}L")),
                _ => {
                    return Err(format!("{n:?} is not from 1 to 5: write one of them after the #"));
                }
            };
            if day.contains(['-', '/', '*']) {
                let reason = "has more than one day before the #: write each with a # of its own";
                return Err(format!("{entry} {reason}"));
            }
            self.nth_weekdays |= 1 << nth(before, one(day)?);
        } else if entry == "L" {
            return Err("L is no day: write the day before it, as FRIL for the last Friday".into());
        } else if let Some(day) = entry.strip_suffix('L') {
            let day = one(day).map_err(|_| {
                format!("{entry} is no last day: write one day before the L, as FRIL")
            })?;
            self.last_weekdays |= 1 << day;
        } else {
            self.weekdays |= WEEKDAY.values(entry)?;
        }
        Ok(())
    }

    /// Returns whether each date matches.
    pub(super) const fn are_all(&self) -> bool {
        self.months == ALL_MONTHS && self.dates == ALL_DAYS && self.weekdays == ALL_WEEKDAYS
    }

    /// Returns the first date that matches, from this day on, in days since the Unix epoch.
    pub(super) fn first_from(&self, day: i64) -> Option<i64> {
        /// The period of the calendar.
        const MONTHS: usize = 400 * 12;
        /// The last year that has ticks.
        const YEAR: i64 = 9_999;
        let mut from = Date::from_days(day);
        for _ in 0..=MONTHS {
            let next = from.next_month();
            if has(self.months, from.month) {
                let first = Date { day: 1, ..from }.days();
                let length = next.days() - first;
                let weekday = |day: i64| (first + day - 1 + THURSDAY).rem_euclid(7);
                let mut left = from.day..=length;
                if let Some(day) = left.find(|day| self.matches(*day, length, weekday)) {
                    return Some(first + day - 1);
                }
            }
            if next.year > YEAR {
                break;
            }
            from = next;
        }
        None
    }

    /// Returns whether a day matches in any month of this length with these weekdays.
    fn matches(&self, day: i64, length: i64, weekday: impl Fn(i64) -> i64) -> bool {
        // The nearest day from Monday to Friday within the month.
        let workday = |day: i64| match weekday(day) {
            SATURDAY if day > 1 => day - 1,
            SATURDAY => day + 2,
            SUNDAY if day < length => day + 1,
            SUNDAY => day - 2,
            _ => day,
        };
        let is_near = |near: i64| has(self.nearest_workday, near) && workday(near) == day;
        let by_day = has(self.dates, day)
            || (self.last_day && day == length)
            || (self.last_workday && day == workday(length))
            || (self.nearest_workday != 0 && (1..=length).any(is_near));
        let by_weekday = has(self.weekdays, weekday(day))
            || has(self.nth_weekdays, nth((day - 1) / 7, weekday(day)))
            || (day + 7 > length && has(self.last_weekdays, weekday(day)));
        if self.both { by_day && by_weekday } else { by_day || by_weekday }
    }
}

/// Returns the bit of a weekday that occurred `before` times earlier in its month.
const fn nth(before: i64, weekday: i64) -> i64 {
    before * 8 + weekday
}

/// Returns the message for a field that always matches beside one that need not match.
fn useless(text: &str, other: &Field) -> String {
    format!("{text} is every day, whatever the {} is: write * to go by that alone", other.name)
}
