//! A point on a clock.

use std::{ops::Add, time::Duration};

/// A point on a clock: nanoseconds since an origin that the clock chose.
///
/// Comparable only with timestamps of the same clock. Arithmetic saturates, so that a wait of
/// [`Duration::MAX`] is "never" and not a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The clock's origin; earlier than or equal to every other timestamp.
    pub const ZERO: Self = Self(0);
    /// Later than every moment of a clock: "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the timestamp `nanos` nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is later.
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// `self` moved back by `duration`, at most to [`Timestamp::ZERO`].
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let t = Timestamp::from_nanos(5);
        assert_eq!(t + Duration::MAX, Timestamp::MAX);
        assert_eq!(t.saturating_sub(Duration::MAX), Timestamp::ZERO);
        assert_eq!(t.saturating_duration_since(t + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(
            (t + Duration::from_secs(1)).saturating_duration_since(t),
            Duration::from_secs(1)
        );
    }
}
