//! Generators and checks that the tests share.

use tower_redlock::{Schedule, schedule::WallTime};

pub(crate) fn at(millis: u64) -> WallTime {
    WallTime::from_millis(millis)
}

/// All ticks after `after` and not after `until`, in milliseconds.
pub(crate) fn ticks(schedule: &Schedule, after: u64, until: u64) -> Vec<u64> {
    schedule.ticks(at(after), at(until)).map(WallTime::as_millis).collect()
}

/// The error of the schedule, which must have no ticks.
pub(crate) fn error(schedule: impl Into<Schedule>) -> String {
    let schedule = schedule.into();
    let error = schedule.check().expect_err("the schedule can't be used").to_string();
    assert_eq!(schedule.next(WallTime::ZERO, Some(WallTime::ZERO)), None, "{error}");
    assert_eq!(schedule.next(WallTime::ZERO, None), None, "{error}");
    assert_eq!(schedule.latest(WallTime::MAX), None, "{error}");
    assert_eq!(schedule.ticks(WallTime::ZERO, WallTime::MAX).next(), None, "{error}");
    error
}
