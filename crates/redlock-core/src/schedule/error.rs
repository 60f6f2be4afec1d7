//! Errors of schedules.

use std::{fmt, time::Duration};

use super::wall_time::WallTime;

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
    /// The period has no tick before the end of the year 9999.
    PeriodTooLong {
        /// The period.
        period: Duration,
    },
    /// The offset is not made of whole milliseconds.
    FractionalOffset {
        /// The offset.
        offset: Duration,
    },
    /// The offset is not below the period.
    OffsetTooLong {
        /// The offset.
        offset: Duration,
        /// The period.
        period: Duration,
    },
    /// An offset was given to a schedule that has no period.
    OffsetWithoutPeriod {
        /// The offset.
        offset: Duration,
    },
    /// The name of a rule of one's own is empty.
    UnnamedRule,
    /// The moment is not after the Unix epoch, or is after the end of the year 9999.
    MomentOutOfRange,
    /// No tick comes after the present moment. Returned by
    /// [`Schedule::check_at`](super::Schedule::check_at) alone.
    NoTickLeft {
        /// The last tick; `None` where there never was one.
        last: Option<WallTime>,
    },
    /// The cron expression can't be read.
    InvalidCron {
        /// The expression.
        expression: String,
        /// Which field is wrong, what is wrong with it, and what to write instead.
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
            Self::FractionalOffset { offset } => write!(
                f,
                "the offset {offset:?} is not made of whole milliseconds: round it, as ticks are named by milliseconds"
            ),
            Self::OffsetTooLong { offset, period } => write!(
                f,
                "the offset {offset:?} is not below the period {period:?}: give what is left of it after whole periods"
            ),
            Self::OffsetWithoutPeriod { offset } => write!(
                f,
                "the offset {offset:?} was given to a schedule without a period: only Schedule::every has offsets"
            ),
            Self::UnnamedRule => f.write_str(
                "the name of the custom rule is empty: say what the rule is, as it is compared by its name",
            ),
            Self::MomentOutOfRange => f.write_str(
                "the moment is not between the Unix epoch and the end of the year 9999: check how it is computed",
            ),
            Self::NoTickLeft { last: Some(last) } => {
                write!(f, "no tick is left: the last one was {last}; give a later moment")
            }
            Self::NoTickLeft { last: None } => {
                f.write_str("the schedule has no tick: check its rule")
            }
            Self::InvalidCron { expression, reason } => {
                write!(f, "the cron expression {expression:?} can't be read: {reason}")
            }
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
