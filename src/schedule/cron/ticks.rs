//! Ticks of a cron expression in a time zone.

use jiff::{
    Timestamp,
    tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase},
};

use super::expression::Expression;
use crate::schedule::{ScheduleError, WallTime};

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

    /// Each matching local time once: at its first occurrence, or after the gap that contains it.
    fn fixed(&self, after: i64) -> Option<i64> {
        // Not `after` in local time: in a fold, that would try each local time of an hour.
        let mut local = self.zone.shown_until(after)?;
        loop {
            local = self.expression.next(local)?;
            let tick = self.zone.first(local)?;
            // Not for any zone of today: two changes in a row could leave an earlier one.
            if tick > after {
                return Some(tick);
            }
        }
    }

    /// Each time whose local time matches, also if that local time occurs twice.
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
            // The clock was changed first, so what it shows starts anew.
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

/// A time zone, in whole seconds: moments since the Unix epoch, local times as if they were UTC.
#[derive(Debug)]
struct Zone(TimeZone);

impl Zone {
    /// Uses the built-in database only, as the databases of machines may differ.
    fn named(name: &str) -> Option<Self> {
        TimeZoneDatabase::bundled().get(name).ok().map(Self)
    }

    fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns the local time less UTC.
    fn offset(&self, moment: i64) -> Option<i64> {
        Some(seconds(self.0.to_offset(timestamp(moment)?)))
    }

    /// Returns the next change of the offset strictly after `moment`.
    fn change_after(&self, moment: i64) -> Option<i64> {
        self.0.following(timestamp(moment)?).next().map(|change| change.timestamp().as_second())
    }

    /// Returns the latest local time that was reached by `moment`, a change at `moment` included. In the
    /// second half of a fold, that is the end of the first half.
    fn shown_until(&self, moment: i64) -> Option<i64> {
        let now = moment + self.offset(moment)?;
        let change = self.0.preceding(timestamp(moment + 1)?).next();
        let before = change.and_then(|change| {
            let last = change.timestamp().as_second() - 1;
            Some(last + self.offset(last)?)
        });
        Some(before.map_or(now, |before| now.max(before)))
    }

    /// Returns the first time at which it is `local`; in a gap, the time of the change.
    fn first(&self, local: i64) -> Option<i64> {
        let civil = Offset::UTC.to_datetime(timestamp(local)?);
        match self.0.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => Some(local - seconds(offset)),
            AmbiguousOffset::Fold { before, .. } => Some(local - seconds(before)),
            AmbiguousOffset::Gap { after, .. } => self.change_after(local - seconds(after)),
        }
    }
}

fn seconds(offset: Offset) -> i64 {
    i64::from(offset.seconds())
}

fn timestamp(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In Berlin, 2025-10-26 03:00 is followed by 02:00 (at 01:00Z).
    const AUTUMN: i64 = 1_761_440_400;
    const HOUR: i64 = 3_600;

    #[test]
    fn shown_time_never_decreases_in_fold() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        let shown = |moment| zone.shown_until(moment).unwrap();
        assert_eq!(shown(AUTUMN - 1), AUTUMN + 2 * HOUR - 1);
        for within in [0, 1, HOUR / 2, HOUR - 1] {
            assert_eq!(shown(AUTUMN + within), AUTUMN + 2 * HOUR - 1);
        }
        assert_eq!(shown(AUTUMN + HOUR), AUTUMN + 2 * HOUR);
        let utc = Zone::named("UTC").unwrap();
        assert_eq!(utc.shown_until(AUTUMN), Some(AUTUMN));
    }

    #[test]
    fn moments_beyond_the_calendar_are_none() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        for beyond in [i64::from(i32::MAX) * 1_000, i64::from(i32::MIN) * 1_000] {
            assert_eq!(zone.offset(beyond), None);
            assert_eq!(zone.change_after(beyond), None);
            assert_eq!(zone.shown_until(beyond), None);
            assert_eq!(zone.first(beyond), None);
        }
    }
}
