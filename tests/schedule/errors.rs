//! What can't be used is refused, by name.

use std::time::{Duration, SystemTime};

use tower_redlock::schedule::{Schedule, WallTime};

use crate::tools::error;

#[test]
fn periods_that_are_none_are_refused() {
    for new in [Schedule::every, Schedule::every_after] {
        assert_eq!(
            error(new(Duration::ZERO)),
            "the period is zero: give at least one millisecond between two runs"
        );
        assert_eq!(
            error(new(Duration::from_micros(1_500))),
            "the period 1.5ms is not made of whole milliseconds: round it, as ticks are named by milliseconds"
        );
        assert!(error(new(Duration::from_nanos(1))).starts_with("the period 1ns is not"));
        assert!(error(new(Duration::from_secs(u64::MAX))).contains("give a shorter one"));
        let longest = Duration::from_millis(WallTime::MAX.as_millis());
        assert!(new(longest).check().is_ok());
        assert!(new(longest + Duration::from_millis(1)).check().is_err());
    }
}

#[test]
fn moments_that_have_no_name_are_refused() {
    let text = "the moment is not between the Unix epoch and the end of the year 9999: check how it is computed";
    let end = SystemTime::from(WallTime::MAX);
    let second = Duration::from_secs(1);
    for moment in [SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH - second, end + second] {
        assert_eq!(error(Schedule::at(moment)), text);
    }
}

#[cfg(feature = "cron")]
#[test]
fn expressions_that_can_not_be_read_are_refused() {
    let bounds = "number out of bounds";
    let names = "the names are @yearly, @monthly, @weekly, @daily and @hourly";
    let cases = [
        ("", "it is empty".to_owned()),
        (" ", "it is empty".to_owned()),
        ("* * * *", "it has 4 fields".to_owned()),
        ("* * * * * * *", "it has 7 fields".to_owned()),
        ("@reboot", names.to_owned()),
        ("60 * * * *", format!("its minute is \"60\": {bounds}")),
        ("60 * * * * *", format!("its second is \"60\": {bounds}")),
        ("* 24 * * *", format!("its hour is \"24\": {bounds}")),
        ("* * 0 * *", format!("its day of month is \"0\": {bounds}")),
        ("* * 32 * *", format!("its day of month is \"32\": {bounds}")),
        ("0 * * * 13 *", format!("its month is \"13\": {bounds}")),
        ("* * * * 8", format!("its day of week is \"8\": {bounds}")),
        ("*/0 * * * *", "its minute is \"*/0\": step cannot be zero".to_owned()),
        ("5-1 * * * *", "its minute is \"5-1\": range out of bounds".to_owned()),
        ("99999999999 * * * *", "its minute is \"99999999999\": invalid number".to_owned()),
        ("1,,2 * * * *", "the list \"1,,2\" has an empty entry".to_owned()),
    ];
    for (expression, reason) in cases {
        let text = Schedule::cron(expression).unwrap_err().to_string();
        let start = format!("the cron expression {expression:?} can't be read: {reason}; write 5 ");
        assert!(text.starts_with(&start), "{text}");
        assert!(text.ends_with("day of week), or 6 with the second first"), "{text}");
    }
    for expression in ["a * * * *", "* * * * MOON", "-1 * * * *", "5/15 * * * *"] {
        let text = Schedule::cron(expression).unwrap_err().to_string();
        assert!(text.contains(&format!("{expression:?} can't be read: its ")), "{text}");
    }
}

#[cfg(feature = "cron")]
#[test]
fn expressions_that_never_match_are_refused() {
    for expression in
        ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "* * * 30 2 *", "0 0 * * L", "0 0 31 FEB *"]
    {
        let text = Schedule::cron(expression).unwrap_err().to_string();
        assert!(text.contains(&format!("{expression:?}")), "{text}");
    }
    assert_eq!(
        Schedule::cron("0 0 30 2 *").unwrap_err().to_string(),
        "the cron expression \"0 0 30 2 *\" never matches: no date has its day of month, month and day of week"
    );
    let rare: Schedule = Schedule::cron("0 0 29 2 +MON").unwrap().into();
    assert!(rare.check().is_ok());
}

#[cfg(feature = "cron")]
#[test]
fn zones_that_are_unknown_are_refused() {
    for zone in ["Europe/Bonn", "", "CEST", "+02:00", "../etc/passwd", "Europe/Berlin "] {
        assert_eq!(
            Schedule::cron("0 3 * * *").unwrap().in_tz(zone).unwrap_err().to_string(),
            format!(
                "{zone:?}, the zone of the cron expression \"0 3 * * *\", is not in the time zone database: give a name such as \"Europe/Berlin\" or \"UTC\""
            )
        );
    }
}
