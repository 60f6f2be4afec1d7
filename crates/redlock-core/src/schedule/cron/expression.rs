//! Matches local times against a cron expression.

use super::{
    days::Days,
    field::{HOUR, MINUTE, SECOND, Values, first_bit},
};
use crate::schedule::error::ScheduleError;

/// The local times that match, in any time zone.
///
/// Local times are counted as seconds, as if they were UTC.
#[derive(Debug)]
pub(super) struct Expression {
    canonical: String,
    seconds: Values,
    minutes: Values,
    hours: Values,
    days: Days,
    fixed: bool,
}

/// Seconds of a day.
const DAY: i64 = 86_400;

impl Expression {
    pub(super) fn parse(text: &str) -> Result<Self, ScheduleError> {
        let invalid = |reason| ScheduleError::InvalidCron { expression: text.into(), reason };
        let this = Self::read(text).map_err(invalid)?;
        match this.days.first_from(0) {
            Some(_) => Ok(this),
            None => Err(ScheduleError::NeverMatches { expression: text.into() }),
        }
    }

    fn read(text: &str) -> Result<Self, String> {
        let canonical = written_out(text)?;
        let fields: Vec<_> = canonical.split(' ').collect();
        let &[second, minute, hour, day, month, weekday] = &*fields else {
            return Err("it is empty: write five fields".into());
        };
        let fault = |(field, reason): super::field::Fault| format!("its {}: {reason}", field.name);
        let this = Self {
            seconds: SECOND.list(second).map_err(fault)?,
            minutes: MINUTE.list(minute).map_err(fault)?,
            hours: HOUR.list(hour).map_err(fault)?,
            days: Days::parse(day, month, weekday).map_err(fault)?,
            fixed: ![second, minute, hour].iter().any(|field| field.contains(['*', '/'])),
            canonical: String::new(),
        };
        Ok(Self { canonical, ..this })
    }

    /// Returns the expression with six fields in upper case, separated by one space.
    pub(super) fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Returns whether it names times of day, not intervals.
    pub(super) const fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Returns the time of day, in seconds, of an expression that matches once each day.
    pub(super) fn daily(&self) -> Option<i64> {
        let times = [self.seconds, self.minutes, self.hours];
        let once = times.iter().all(|values| values.is_power_of_two()) && self.days.are_all();
        if once { self.time_from(0) } else { None }
    }

    /// Returns the first local time strictly after `local` that matches.
    pub(super) fn next(&self, local: i64) -> Option<i64> {
        let from = local + 1;
        let (today, time) = (from.div_euclid(DAY), from.rem_euclid(DAY));
        let day = self.days.first_from(today)?;
        let time = if day == today { self.time_from(time) } else { self.time_from(0) };
        match time {
            Some(time) => Some(day * DAY + time),
            None => Some(self.days.first_from(day + 1)? * DAY + self.time_from(0)?),
        }
    }

    /// Returns the first time of day that matches, not before `time`; in seconds.
    fn time_from(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        let at = |hour, minute, second| {
            let hour = first_bit(self.hours, hour)?;
            Some(
                hour * 3_600
                    + first_bit(self.minutes, minute)? * 60
                    + first_bit(self.seconds, second)?,
            )
        };
        let in_hour = |minute, second| at(hour, minute, second).filter(|at| at / 3_600 == hour);
        in_hour(minute, second)
            .filter(|at| at / 60 % 60 == minute)
            .or_else(|| in_hour(minute + 1, 0))
            .or_else(|| at(hour + 1, 0, 0))
    }
}

/// Returns six fields in upper case, separated by one space. Replaces nicknames, and adds the
/// second.
fn written_out(text: &str) -> Result<String, String> {
    let fields: Vec<_> = text.split_whitespace().map(str::to_ascii_uppercase).collect();
    let nickname = match &*fields {
        [] => return Err("it is empty: write a time, as 0 3 * * *".into()),
        [name, ..] if name.starts_with('@') => match (&**name, fields.len()) {
            ("@YEARLY" | "@ANNUALLY", 1) => "0 0 0 1 1 *",
            ("@MONTHLY", 1) => "0 0 0 1 * *",
            ("@WEEKLY", 1) => "0 0 0 * * 0",
            ("@DAILY" | "@MIDNIGHT", 1) => "0 0 0 * * *",
            ("@HOURLY", 1) => "0 0 * * * *",
            ("@REBOOT", _) => return Err(
                "@reboot is no time, and a fleet has no start of its own: do such work before the scheduler is started, or once and for all with Redlock::once".into(),
            ),
            ("@EVERY", _) => return Err("@every is not of cron: write Schedule::every".into()),
            _ => return Err("the names are @yearly (or @annually), @monthly, @weekly, @daily (or @midnight) and @hourly".into()),
        },
        fields => {
            let second = match fields.len() {
                5 => "0 ",
                6 => "",
                count => return Err(format!(
                    "it has {count} fields: write 5 (minute, hour, day of month, month, day of week), or 6 with the second first"
                )),
            };
            return Ok(format!("{second}{}", fields.join(" ")));
        }
    };
    Ok(nickname.into())
}
