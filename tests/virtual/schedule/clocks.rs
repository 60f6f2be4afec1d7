//! Changes of the clocks: the table in the docs of `CronSchedule`.

use tower_redlock::Schedule;

use crate::schedule::tools::{at, ticks};

const HOUR: u64 = 3_600_000;
const MINUTE: u64 = 60_000;

/// In Berlin, 2025-03-30 02:00 is followed by 03:00 (at 01:00Z).
const SPRING: u64 = 1_743_296_400_000;
/// In Berlin, 2025-10-26 03:00 is followed by 02:00 (at 01:00Z).
const AUTUMN: u64 = 1_761_440_400_000;

/// Ticks within three hours of the change, in minutes from it.
fn around(change: u64, expression: &str, zone: &str) -> Vec<i64> {
    let schedule: Schedule = Schedule::cron(expression).unwrap().in_tz(zone).unwrap().into();
    let minutes = |millis: u64| i64::try_from(millis / MINUTE).unwrap();
    let found = ticks(&schedule, change - 3 * HOUR, change + 3 * HOUR);
    found.into_iter().map(|tick| minutes(tick) - minutes(change)).collect()
}

#[test]
fn fixed_times_follow_a_gap_once() {
    let berlin = |expression| around(SPRING, expression, "Europe/Berlin");
    assert_eq!(berlin("30 2 * * *"), [0]);
    assert_eq!(berlin("0 2 * * *"), [0]);
    assert_eq!(berlin("0 3 * * *"), [0]);
    assert_eq!(berlin("0,30 1-3 * * *"), [-60, -30, 0, 30]);
}

#[test]
fn fixed_times_in_fold_come_once() {
    let berlin = |expression| around(AUTUMN, expression, "Europe/Berlin");
    assert_eq!(berlin("30 2 * * *"), [-30]);
    assert_eq!(berlin("0 2 * * *"), [-60]);
    assert_eq!(berlin("0 3 * * *"), [60]);
    assert_eq!(berlin("0,30 1-3 * * *"), [-120, -90, -60, -30, 60, 90]);
}

#[test]
fn intervals_skip_gaps_and_repeat_folds() {
    let berlin = |change, expression| around(change, expression, "Europe/Berlin");
    let each_half_hour: Vec<_> = (-5..=6).map(|n| n * 30).collect();
    assert_eq!(berlin(SPRING, "*/30 * * * *"), each_half_hour);
    assert_eq!(berlin(AUTUMN, "*/30 * * * *"), each_half_hour);
    assert!(berlin(SPRING, "*/30 2 * * *").is_empty());
    assert_eq!(berlin(AUTUMN, "*/30 2 * * *"), [-60, -30, 0, 30]);
}

#[test]
fn next_from_within_a_fold() {
    let nightly: Schedule =
        Schedule::cron("30 2 * * *").unwrap().in_tz("Europe/Berlin").unwrap().into();
    let tomorrow = at(AUTUMN + 24 * HOUR + HOUR / 2);
    for moment in [AUTUMN - HOUR / 2, AUTUMN - 1, AUTUMN, AUTUMN + HOUR / 2 - 1, AUTUMN + HOUR] {
        assert_eq!(nightly.next(at(moment), None), Some(tomorrow), "{moment}");
    }
    let often: Schedule =
        Schedule::cron("30 * * * *").unwrap().in_tz("Europe/Berlin").unwrap().into();
    assert_eq!(often.next(at(AUTUMN - HOUR / 2), None), Some(at(AUTUMN + HOUR / 2)));
}

#[test]
fn changes_of_half_hour_or_day() {
    // On Lord Howe Island, 2025-10-05 02:00 is followed by 02:30 (at 2025-10-04 15:30Z).
    let change = 1_759_591_800_000;
    assert_eq!(around(change, "15 2 * * *", "Australia/Lord_Howe"), [0]);
    assert_eq!(around(change, "*/15 2 * * *", "Australia/Lord_Howe"), [0, 15]);
    // Apia left out 2011-12-30, from 10:00Z of that day.
    let change = 1_325_239_200_000;
    assert_eq!(around(change, "0 12 30 12 *", "Pacific/Apia"), [0]);
    assert!(around(change, "0 * 30 12 *", "Pacific/Apia").is_empty());
}
