use std::{fmt, time::Duration};

/// What is wrong with a schedule. No job was started with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The period is zero.
    ZeroPeriod,
    /// The period is not made of whole milliseconds.
    FractionalPeriod {
        /// The period.
        period: Duration,
    },
    /// The period is so long that it has no tick before the end of the year 9999.
    PeriodTooLong {
        /// The period.
        period: Duration,
    },
    /// The moment is not after the Unix epoch, or is after the end of the year 9999.
    MomentOutOfRange,
    /// The cron expression can't be read.
    InvalidCron {
        /// The expression.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The cron expression can be read, and no date will ever match it.
    NeverMatches {
        /// The expression.
        expression: String,
    },
    /// The time zone is not in the zone database.
    UnknownZone {
        /// The zone's name.
        zone: String,
        /// The expression that was to be read in it.
        expression: String,
    },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroPeriod => {
                f.write_str("the period is zero: give at least one millisecond between two runs")
            }
            Self::FractionalPeriod { period } => write!(
                f,
                "the period {period:?} is not made of whole milliseconds: round it, as ticks are named by milliseconds"
            ),
            Self::PeriodTooLong { period } => write!(
                f,
                "the period {period:?} has no tick before the end of the year 9999: give a shorter one"
            ),
            Self::MomentOutOfRange => f.write_str(
                "the moment is not between the Unix epoch and the end of the year 9999: check how it is computed",
            ),
            Self::InvalidCron { expression, reason } => write!(
                f,
                "the cron expression {expression:?} can't be read: {reason}; write 5 fields (minute, hour, day of month, month, day of week), or 6 with the second first"
            ),
            Self::NeverMatches { expression } => write!(
                f,
                "the cron expression {expression:?} never matches: no date has its day of month, month and day of week"
            ),
            Self::UnknownZone { zone, expression } => write!(
                f,
                "{zone:?}, the zone of the cron expression {expression:?}, is not in the time zone database: give a name such as \"Europe/Berlin\" or \"UTC\""
            ),
        }
    }
}

impl std::error::Error for ScheduleError {}
