//! The ticks of cron expressions, without changes of the clocks.

use tower_redlock::{Schedule, schedule::WallTime};

use crate::schedule::tools::{at, ticks};

const DAY: u64 = 86_400_000;
/// 2025-01-01T00:00Z, a Wednesday.
const START: u64 = 1_735_689_600_000;

/// Days of January 2025 with a tick, the first of them as 1.
fn days(expression: &str) -> Vec<u64> {
    let schedule: Schedule = Schedule::cron(expression).unwrap().into();
    schedule.check().expect(expression);
    let found = ticks(&schedule, START - 1, START + 31 * DAY - 1);
    found.into_iter().map(|tick| (tick - START) / DAY + 1).collect()
}

#[test]
fn days_are_named_as_documented() {
    assert_eq!(days("0 0 1 * *"), [1]);
    assert_eq!(days("0 0 * * SUN"), [5, 12, 19, 26]);
    assert_eq!(days("0 0 * * 7"), days("0 0 * * 0"));
    assert_eq!(days("0 0 1 * SUN"), [1, 5, 12, 19, 26], "either is enough");
    assert_eq!(days("0 0 1-7 * +SUN"), [5], "both are needed");
    assert_eq!(days("0 0 L * *"), [31]);
    assert_eq!(days("0 0 4W * *"), [3]);
    assert_eq!(days("0 0 * JAN WED#2"), [8]);
    assert!(days("0 0 * FEB *").is_empty());
    assert_eq!(days("@weekly"), [5, 12, 19, 26]);
    assert_eq!(days("@monthly"), [1]);
    assert_eq!(days("@daily").len(), 31);
}

#[test]
fn last_year_has_ticks() {
    let june: Schedule = Schedule::cron("0 0 1 6 *").unwrap().into();
    // 9999-01-02 and 9999-06-01.
    assert_eq!(june.next(at(253_370_851_200_000), None), Some(at(253_383_811_200_000)));
    assert_eq!(june.next(at(253_383_811_200_000), None), None);
}

#[test]
fn nicknames_are_what_the_manual_has() {
    for (name, expression) in [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        (" @Hourly ", "0 * * * *"),
    ] {
        let of = |expression: &str| {
            let schedule: Schedule =
                Schedule::cron(expression).unwrap().in_tz("Europe/Berlin").unwrap().into();
            ticks(&schedule, START, START + 400 * DAY)
        };
        assert_eq!(of(name), of(expression), "{name}");
        assert!(!of(name).is_empty(), "{name}");
    }
}

#[test]
fn next_tick_is_exact_to_milliseconds() {
    let schedule: Schedule = Schedule::cron("* * * * * *").unwrap().into();
    assert_eq!(schedule.next(at(START - 1), None), Some(at(START)));
    assert_eq!(schedule.next(at(START), None), Some(at(START + 1_000)));
    assert_eq!(schedule.next(at(START + 999), None), Some(at(START + 1_000)));
}

#[test]
fn rare_days_have_a_last_tick() {
    // 29 February on a Monday: 1988-2016-2044, and across 2100, which has none.
    for zone in ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        for expression in ["0 0 29 2 +MON", "*/30 0 29 2 +MON"] {
            let rare: Schedule = Schedule::cron(expression).unwrap().in_tz(zone).unwrap().into();
            assert_eq!(rare.next(WallTime::MAX, None), None);
            let last = rare.latest(WallTime::MAX).unwrap();
            assert_eq!(rare.next(last, None), None, "{zone}");
            assert_eq!(rare.latest(last), Some(last), "{zone}");
            assert!(last > at(95_000_000_000_000), "{zone}: {last:?}");
        }
    }
}
