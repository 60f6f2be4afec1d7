//! Unusable schedules are refused, with the reason.

use std::time::{Duration, SystemTime};

use tower_redlock::{
    Schedule,
    schedule::{ScheduleError, WallTime},
};

use crate::schedule::tools::error;

#[test]
fn unusable_periods_are_refused() {
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
fn moments_out_of_range_are_refused() {
    let text = "the moment is not between the Unix epoch and the end of the year 9999: check how it is computed";
    let end = SystemTime::from(WallTime::MAX);
    let second = Duration::from_secs(1);
    for moment in [SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH - second, end + second] {
        assert_eq!(error(Schedule::at(moment)), text);
    }
}

#[test]
fn unusable_offsets_are_refused() {
    let minute = Duration::from_secs(60);
    let moved = |offset| error(Schedule::every(minute).offset(offset));
    assert_eq!(
        moved(minute),
        "the offset 60s is not below the period 60s: give what is left of it after whole periods"
    );
    assert!(moved(Duration::from_secs(u64::MAX)).contains("is not below the period 60s"));
    assert_eq!(
        moved(Duration::from_micros(1_500)),
        "the offset 1.5ms is not made of whole milliseconds: round it, as ticks are named by milliseconds"
    );
    let without =
        "the offset 1s was given to a schedule without a period: only Schedule::every has offsets";
    let second = Duration::from_secs(1);
    assert_eq!(error(Schedule::every_after(minute).offset(second)), without);
    assert_eq!(error(Schedule::at(WallTime::MAX.into()).offset(second)), without);
    // Reports the first mistake.
    assert!(
        error(Schedule::every(Duration::ZERO).offset(second)).starts_with("the period is zero")
    );
}

#[test]
fn rules_without_a_name_are_refused() {
    for name in ["", " "] {
        let text = error(Schedule::custom(name, Some));
        assert!(text.starts_with("the name of the custom rule is empty: say what"), "{text}");
    }
}

#[test]
fn check_at_finds_ended_schedules() {
    let at = WallTime::from_millis;
    let once = Schedule::at(at(1_500).into());
    assert_eq!(once.check_at(at(1_499)), Ok(()));
    let over = once.check_at(at(1_500)).unwrap_err();
    assert_eq!(over, ScheduleError::NoTickLeft { last: Some(at(1_500)) });
    assert_eq!(
        over.to_string(),
        "no tick is left: the last one was 1970-01-01T00:00:01.500Z; give a later moment"
    );
    assert_eq!(once.check(), Ok(()), "it can be used");
    let never = Schedule::custom("never", |_| None).check_at(at(5)).unwrap_err();
    assert_eq!(never.to_string(), "the schedule has no tick: check its rule");
    let second = Duration::from_secs(1);
    for endless in [Schedule::every(second), Schedule::every_after(second)] {
        assert_eq!(endless.check_at(at(5)), Ok(()));
    }
    assert_eq!(Schedule::every(Duration::ZERO).check_at(at(5)), Err(ScheduleError::ZeroPeriod));
}

#[test]
fn unreadable_expressions_are_refused() {
    let five =
        "write 5 (minute, hour, day of month, month, day of week), or 6 with the second first";
    let names = "the names are @yearly (or @annually), @monthly, @weekly, @daily (or @midnight) and @hourly";
    let days = "nor one of SUN, MON, TUE, WED, THU, FRI, SAT";
    let cases = [
        ("", "it is empty: write a time, as 0 3 * * *".to_owned()),
        (" ", "it is empty: write a time, as 0 3 * * *".to_owned()),
        ("* * * *", format!("it has 4 fields: {five}")),
        ("* * * * * * *", format!("it has 7 fields: {five}")),
        ("@reboot", "@reboot is no time, and a fleet has no start of its own: do such work before the scheduler is started, or once and for all with Redlock::once".to_owned()),
        ("@every 5m", "@every is not of cron: write Schedule::every".to_owned()),
        ("@fortnightly", names.to_owned()),
        ("@daily 5", names.to_owned()),
        ("60 * * * *", "its minute: 60 is not from 0 to 59".to_owned()),
        ("60 * * * * *", "its second: 60 is not from 0 to 59".to_owned()),
        ("* 24 * * *", "its hour: 24 is not from 0 to 23".to_owned()),
        ("* * 0 * *", "its day of month: 0 is not from 1 to 31".to_owned()),
        ("* * 32 * *", "its day of month: 32 is not from 1 to 31".to_owned()),
        ("0 * * * 13 *", "its month: 13 is not from 1 to 12".to_owned()),
        ("* * * * 8", "its day of week: 8 is not from 0 to 7".to_owned()),
        ("99999999999 * * * *", "its minute: 99999999999 is not from 0 to 59".to_owned()),
        ("a * * * *", "its minute: \"A\" is no number from 0 to 59".to_owned()),
        ("-1 * * * *", "its minute: \"\" is no number from 0 to 59".to_owned()),
        ("*/0 * * * *", "its minute: the step is zero: write 1 or more".to_owned()),
        ("*/x * * * *", "its minute: \"X\" is no step: write a number after the /".to_owned()),
        ("*/90 * * * *", "its minute: a step of 90 leads beyond 0-59 and leaves only 0: write 0, or use Schedule::every for a period".to_owned()),
        ("5/15 * * * *", "its minute: 5/15 has a step and no range: write 5-59/15".to_owned()),
        ("/15 * * * *", "its minute: /15 has no range: write */15".to_owned()),
        ("1,,2 * * * *", "its minute: it has an empty entry: leave out the comma".to_owned()),
        ("*,2 * * * *", "its minute: * is part of a list, which it makes useless: write * alone".to_owned()),
        ("50-10 * * * *", "its minute: 50-10 goes backwards: write 50-59,0-10".to_owned()),
        // Names: in their own fields, whole, and one at a time.
        ("0 9 FRI * *", "its day of month: FRI is a day of week: write it in that field".to_owned()),
        ("0 9 * fri *", "its month: FRI is a day of week: write it in that field".to_owned()),
        ("FEB * * * *", "its minute: FEB is a month: write it in that field".to_owned()),
        ("* * * * MAR", "its day of week: MAR is a month: write it in that field".to_owned()),
        ("* * * JANFEB *", "its month: \"JANFEB\" is neither a number from 1 to 12 nor one of JAN, FEB, MAR, APR, MAY, JUN, JUL, AUG, SEP, OCT, NOV, DEC".to_owned()),
        ("* * * * MONDAY", format!("its day of week: \"MONDAY\" is neither a number from 0 to 7 {days}")),
        ("* * * * 1MON", format!("its day of week: \"1MON\" is neither a number from 0 to 7 {days}")),
        // Sundays.
        ("* * * * SUN-SUN", "its day of week: SUN-SUN may be one day or a week: write SUN or *".to_owned()),
        ("* * * * 7-SUN", "its day of week: 7-SUN may be one day or a week: write SUN or *".to_owned()),
        ("* * * * FRI-MON", "its day of week: FRI-MON goes backwards: write 5-6,0-1".to_owned()),
        ("* * * * 5-0", "its day of week: 5-0 goes backwards: write 5-7".to_owned()),
        ("* * * * 7-2", "its day of week: 7-2 goes backwards: write 0-2".to_owned()),
        // Days that are not of the manual.
        ("* * ? * *", "its day of month: ? is not of cron: write *, and mind that Sunday is 0".to_owned()),
        ("* * 15W3 * *", "its day of month: \"15W3\" is no number from 1 to 31".to_owned()),
        ("* * 1-5W * *", "its day of month: 1-5W is no workday: write one day before the W, as 15W, or LW".to_owned()),
        ("* * * * L", "its day of week: L is no day: write the day before it, as FRIL for the last Friday".to_owned()),
        ("* * * * FRI#6", "its day of week: \"6\" is not from 1 to 5: write one of them after the #".to_owned()),
        ("* * * * 5#L", "its day of week: 5#L is not of cron: write 5L".to_owned()),
        ("* * * * 1-5#2", "its day of week: 1-5#2 has more than one day before the #: write each with a # of its own".to_owned()),
        ("* * * * 1-5L", "its day of week: 1-5L is no last day: write one day before the L, as FRIL".to_owned()),
        ("* * * * +", "its day of week: nothing comes after the +: write the days there".to_owned()),
        // Beside another field.
        ("* * 1-31 * MON", "its day of month: 1-31 is every day, whatever the day of week is: write * to go by that alone".to_owned()),
        ("* * 13 * 0-6", "its day of week: 0-6 is every day, whatever the day of month is: write * to go by that alone".to_owned()),
        ("* * 1,*/2 * MON", "its day of month: */2 is part of a list: write 1-31/2".to_owned()),
        ("* * * * */2,5", "its day of week: */2 is part of a list: write 0-6/2".to_owned()),
    ];

    for (expression, reason) in cases {
        let text = Schedule::cron(expression).unwrap_err().to_string();
        assert_eq!(text, format!("the cron expression {expression:?} can't be read: {reason}"));
    }
}

#[test]
fn expressions_that_never_match_are_refused() {
    for expression in
        ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "* * * 30 2 *", "0 0 31W 4 *", "0 0 31 FEB *"]
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

#[test]
fn unknown_zones_are_refused() {
    for zone in ["Europe/Bonn", "", "CEST", "+02:00", "../etc/passwd", "Europe/Berlin "] {
        assert_eq!(
            Schedule::cron("0 3 * * *").unwrap().in_tz(zone).unwrap_err().to_string(),
            format!(
                "{zone:?}, the zone of the cron expression \"0 3 * * *\", is not in the time zone database: give a name such as \"Europe/Berlin\" or \"UTC\""
            )
        );
    }
}
