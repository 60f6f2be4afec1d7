use croner::{
    Cron,
    parser::{CronParser, Year},
};
use jiff::{Timestamp, tz::TimeZone};

use super::fault;
use crate::schedule::ScheduleError;

/// Which local times match, without regard to any zone.
///
/// Local times are counted as seconds, as if they were UTC.
#[derive(Debug)]
pub(super) struct Expression {
    cron: Cron,
    fixed: bool,
}

impl Expression {
    pub(super) fn parse(expression: &str) -> Result<Self, ScheduleError> {
        let parser = CronParser::builder().year(Year::Disallowed).build();
        let invalid = |reason| ScheduleError::InvalidCron { expression: expression.into(), reason };
        let cron = parser
            .parse(expression)
            .map_err(|error| invalid(fault::reason(parser, expression, &error)))?;
        if let Some(reason) = fault::empty_entry(expression) {
            return Err(invalid(reason));
        }
        let this = Self { fixed: is_fixed(cron.as_str()), cron };
        match this.next(0) {
            Some(_) => Ok(this),
            None => Err(ScheduleError::NeverMatches { expression: expression.into() }),
        }
    }

    /// Whether it names times of day, not intervals.
    pub(super) const fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// The first local time strictly after `local` that matches.
    pub(super) fn next(&self, local: i64) -> Option<i64> {
        let local = Timestamp::from_second(local).ok()?.to_zoned(TimeZone::UTC);
        let next = self.cron.find_next_occurrence(&local, false).ok()?;
        Some(next.timestamp().as_second())
    }
}

/// `fields` is written out, without a nickname.
fn is_fixed(fields: &str) -> bool {
    let count = fields.split_whitespace().count();
    // Before the day of month, month and day of week.
    let time = fields.split_whitespace().take(count.saturating_sub(3));
    time.flat_map(str::chars).all(|c| c != '*' && c != '/')
}
