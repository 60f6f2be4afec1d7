//! Ticks of a cron expression in a time zone.

use super::{expression::Expression, zones::Zone};
use crate::schedule::{error::ScheduleError, wall_time::WallTime};

/// The times at which the local time of a zone matches an expression.
#[derive(Debug)]
pub(in crate::schedule) struct CronTicks {
    text: String,
    expression: Expression,
    zone: Zone,
}

impl CronTicks {
    pub(in crate::schedule) fn new(text: String, zone: &str) -> Result<Self, ScheduleError> {
        let expression = Expression::parse(&text)?;
        match Zone::named(zone) {
            Some(zone) => Ok(Self { text, expression, zone }),
            None => Err(ScheduleError::UnknownZone { zone: zone.into(), expression: text }),
        }
    }

    /// Returns the expression as given, trimmed.
    pub(in crate::schedule) fn text(&self) -> &str {
        self.text.trim()
    }

    /// Returns the expression with six fields in upper case, separated by one space.
    pub(in crate::schedule) fn canonical(&self) -> &str {
        self.expression.canonical()
    }

    /// Returns the zone's name in the database.
    pub(in crate::schedule) fn zone(&self) -> &str {
        self.zone.name()
    }

    /// Returns the time of day, in seconds, of an expression that matches once each day.
    pub(in crate::schedule) fn daily(&self) -> Option<u64> {
        u64::try_from(self.expression.daily()?).ok()
    }

    pub(in crate::schedule) fn next(&self, after: WallTime) -> Option<WallTime> {
        let after = i64::try_from(after.as_millis() / 1_000).ok()?;
        let tick =
            if self.expression.is_fixed() { self.fixed(after) } else { self.interval(after) };
        u64::try_from(tick?).ok()?.checked_mul(1_000).map(WallTime::from_millis)
    }

    /// Returns the next tick of fixed times: each matching local time once, at its first
    /// occurrence, or after the gap that contains it.
    fn fixed(&self, after: i64) -> Option<i64> {
        // Starting from `after` in local time would try each local time of an hour in a fold.
        let mut local = self.zone.shown_until(after)?;
        loop {
            local = self.expression.next(local)?;
            let tick = self.zone.first(local)?;
            // No present zone needs this check: it is for two changes in a row.
            if tick > after {
                return Some(tick);
            }
        }
    }

    /// Returns the next tick of intervals: each time whose local time matches, also if that local
    /// time occurs twice.
    fn interval(&self, after: i64) -> Option<i64> {
        let mut since = after;
        let mut offset = self.zone.offset(since)?;
        let mut local = since + offset;
        let mut next = self.expression.next(local)?;
        loop {
            let tick = next - offset;
            let Some(change) = self.zone.change_after(since).filter(|change| *change <= tick)
            else {
                return Some(tick);
            };
            // The clock changes before that tick, so the search restarts at the new local time.
            since = change;
            offset = self.zone.offset(since)?;
            let shown = since + offset - 1;
            if shown < local || shown >= next {
                next = self.expression.next(shown)?;
            }
            local = shown;
        }
    }
}
