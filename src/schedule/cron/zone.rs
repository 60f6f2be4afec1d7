use jiff::{
    Timestamp,
    tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase},
};

/// A time zone, in whole seconds: moments since the Unix epoch, local times as if they were UTC.
#[derive(Debug)]
pub(super) struct Zone(TimeZone);

impl Zone {
    /// From the built-in database only: what a machine has installed may differ from another's.
    pub(super) fn named(name: &str) -> Option<Self> {
        TimeZoneDatabase::bundled().get(name).ok().map(Self)
    }

    pub(super) fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Local time less UTC.
    pub(super) fn offset(&self, moment: i64) -> Option<i64> {
        Some(seconds(self.0.to_offset(timestamp(moment)?)))
    }

    /// The next change of the clock strictly after `moment`.
    pub(super) fn change_after(&self, moment: i64) -> Option<i64> {
        self.0.following(timestamp(moment)?).next().map(|change| change.timestamp().as_second())
    }

    /// The latest local time that the clock has shown by `moment`, the change at `moment` or
    /// before it included: in the second half of a fold, that is the end of the first half.
    pub(super) fn shown_until(&self, moment: i64) -> Option<i64> {
        let now = moment + self.offset(moment)?;
        let change = self.0.preceding(timestamp(moment + 1)?).next();
        let before = change.and_then(|change| {
            let last = change.timestamp().as_second() - 1;
            Some(last + self.offset(last)?)
        });
        Some(before.map_or(now, |before| now.max(before)))
    }

    /// When it is first `local`; in a gap, the moment of the change.
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
