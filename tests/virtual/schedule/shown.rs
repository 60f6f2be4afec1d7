//! Display and debug output of schedules.

use std::time::{Duration, SystemTime};

use tower_redlock::{Schedule, schedule::WallTime};

use crate::durations::{DAY, HOUR, MINUTE, MS, SECOND};
use crate::schedule::tools::at;

#[test]
fn periods_are_shown_in_words() {
    for (period, text) in [
        (250 * MS, "every 250 ms"),
        (SECOND, "every second"),
        (10 * SECOND, "every 10 s"),
        (MINUTE, "every minute"),
        (5 * MINUTE, "every 5 min"),
        (HOUR, "every hour"),
        (90 * MINUTE + MS, "every 1 h 30 min 1 ms"),
        (DAY, "every day at 00:00 (UTC)"),
        (DAY + HOUR, "every 1 day 1 h"),
        (7 * DAY, "every 7 days"),
    ] {
        assert_eq!(Schedule::every(period).to_string(), text);
    }
    let moved = |period, offset| Schedule::every(period).offset(offset).to_string();
    assert_eq!(moved(5 * MINUTE, 30 * SECOND), "every 5 min, offset 30 s");
    assert_eq!(moved(DAY, 3 * HOUR), "every day at 03:00 (UTC)");
    assert_eq!(moved(DAY, 3 * HOUR + 1_250 * MS), "every day at 03:00:01.250 (UTC)");
}

#[test]
fn other_schedules_are_shown_in_words() {
    let every = Schedule::every(10 * SECOND).jitter(2 * SECOND);
    assert_eq!(every.to_string(), "every 10 s, up to 2 s later");
    assert_eq!(Schedule::every_after(90 * SECOND).to_string(), "1 min 30 s after the last run");
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_763_715_600);
    assert_eq!(Schedule::at(moment).to_string(), "once at 2025-11-21T09:00:00Z");
    assert_eq!(Schedule::custom("banking days", |_| None).to_string(), "banking days");
    let none = Schedule::every(Duration::ZERO);
    assert_eq!(none.to_string(), format!("none ({})", none.check().unwrap_err()));
}

#[test]
fn cron_is_shown_with_its_zone() {
    let text = |expression: &str, zone: &str| {
        let schedule = Schedule::cron(expression).unwrap().in_tz(zone).unwrap();
        (Schedule::from(schedule.clone()).to_string(), schedule.jitter(MINUTE).to_string())
    };
    let berlin = |expression| text(expression, "Europe/Berlin").0;

    assert_eq!(berlin("0 3 * * *"), "every day at 03:00 (Europe/Berlin)");
    assert_eq!(berlin("15 30 14 * * *"), "every day at 14:30:15 (Europe/Berlin)");
    assert_eq!(berlin("@daily"), "every day at 00:00 (Europe/Berlin)");
    assert_eq!(berlin("0 3,4 * * *"), "cron 0 3,4 * * * (Europe/Berlin)");
    assert_eq!(berlin("0 3 * * MON"), "cron 0 3 * * MON (Europe/Berlin)");
    assert_eq!(berlin("0 3 */2 * *"), "cron 0 3 */2 * * (Europe/Berlin)");
    assert_eq!(berlin(" */5 * * * *\n"), "cron */5 * * * * (Europe/Berlin)");
    assert_eq!(text("@hourly", "UTC").1, "cron @hourly (UTC), up to 1 min later");
    assert_eq!(text("0 3 * * *", "UTC").1, "every day at 03:00 (UTC), up to 1 min later");
}

#[test]
fn developers_are_shown_the_ticks() {
    let schedule = Schedule::every(30 * SECOND).jitter(SECOND);
    assert_eq!(format!("{schedule:?}"), "Schedule(every 30000 ms, offset 0 ms; jitter 1s)");
}

#[test]
fn moments_are_shown_as_dates() {
    for (millis, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (86_399_999, "1970-01-01T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00Z"),
        (1_709_251_199_000, "2024-02-29T23:59:59Z"),
        (1_763_715_286_120, "2025-11-21T08:54:46.120Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00Z"),
    ] {
        assert_eq!(at(millis).to_string(), text);
    }
    assert_eq!(WallTime::MAX.to_string(), "9999-12-31T23:59:59.999Z");
}
