//! Cron expressions compared with the manual crontab(5): each date and time is checked separately.
//!
//! It shares nothing with the crate: a field is read character by character, as Vixie cron does it,
//! dates are counted on from one whose weekday is known, and `L`, `W` and `#` are found by looking
//! through the month. An expression that the crate accepts must have the same ticks here; one that
//! follows the manual must be accepted.

use std::{collections::BTreeSet, iter::Peekable, str::Chars};

use proptest::{prelude::*, sample::select};
use tower_redlock::Schedule;

use crate::schedule::tools::ticks;

/// 2024-01-01T00:00Z, a Monday of a leap year.
const START: u64 = 1_704_067_200_000;
const DAY: u64 = 86_400_000;
const DAYS: usize = 4 * 365 + 1;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

struct Date {
    month: u32,
    day: u32,
    weekday: u32,
    /// Number of days of the month.
    length: u32,
}

impl Date {
    /// The weekday of another day of the month.
    fn weekday_of(&self, day: u32) -> u32 {
        (self.weekday + 35 + day - self.day) % 7
    }

    fn is_workday(&self, day: u32) -> bool {
        (1..=5).contains(&self.weekday_of(day))
    }
}

fn dates() -> impl Iterator<Item = Date> {
    let length = |year: u32, month: u32| match month {
        2 if year.is_multiple_of(4) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let (mut year, mut month, mut day, mut weekday) = (2024_u32, 1, 0, 0);
    std::iter::repeat_with(move || {
        (day, weekday) = (day + 1, (weekday + 1) % 7);
        if day > length(year, month) {
            (day, month) = (1, month + 1);
        }
        if month > 12 {
            (month, year) = (1, year + 1);
        }
        Date { month, day, weekday, length: length(year, month) }
    })
    .take(DAYS)
}

type Rest<'a> = Peekable<Chars<'a>>;

/// A number or a name. `None` if the manual has no such entry.
fn number(rest: &mut Rest<'_>, low: u32, names: &[&str]) -> Option<u32> {
    let mut word = String::new();
    while let Some(c) = rest.next_if(char::is_ascii_alphanumeric) {
        word.push(c.to_ascii_uppercase());
    }
    match names.iter().position(|name| *name == word) {
        Some(found) => Some(low + u32::try_from(found).unwrap()),
        None => word.chars().all(|c| c.is_ascii_digit()).then(|| word.parse().ok())?,
    }
}

/// The numbers of one field.
fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Option<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    let mut rest = text.chars().peekable();
    loop {
        let (first, last);
        let mut is_range = true;
        if rest.next_if_eq(&'*').is_some() {
            (first, last) = (low, high);
        } else {
            first = number(&mut rest, low, names)?;
            if rest.next_if_eq(&'-').is_some() {
                let is_name = rest.peek().is_some_and(char::is_ascii_alphabetic);
                let end = number(&mut rest, low, names)?;
                // An extension of the manual: a week may end on a Sunday.
                last = if is_name && high == 7 && end == 0 { 7 } else { end };
            } else {
                last = first;
                is_range = false;
            }
        }
        let mut step = 1;
        if is_range && rest.next_if_eq(&'/').is_some() {
            step = number(&mut rest, low, &[]).filter(|step| *step > 0)?;
        }
        if first < low || last > high || first > last {
            return None;
        }
        found.extend((first..=last).filter(|number| (number - first) % step == 0));
        match rest.next() {
            None => break,
            Some(',') => {}
            Some(_) => return None,
        }
    }
    // Sunday is 0 and 7.
    Some(if high == 7 { found.into_iter().map(|day| day % 7).collect() } else { found })
}

/// Whether a date is among the days of month of a list.
fn in_days(list: &str, date: &Date) -> Option<bool> {
    let mut found = false;
    for entry in list.split(',') {
        let month = 1..=date.length;
        let workdays = month.filter(|day| date.is_workday(*day));
        found |= if entry.eq_ignore_ascii_case("L") {
            date.day == date.length
        } else if entry.eq_ignore_ascii_case("LW") {
            workdays.max() == Some(date.day)
        } else if let Some(near) = entry.strip_suffix(['W', 'w']) {
            let near: u32 = near.parse().ok().filter(|day| (1..=31).contains(day))?;
            let nearest = workdays.min_by_key(|day| day.abs_diff(near));
            near <= date.length && nearest == Some(date.day)
        } else {
            field(entry, 1, 31, &[])?.contains(&date.day)
        };
    }
    Some(found)
}

/// The same for the days of week.
fn in_weekdays(list: &str, date: &Date) -> Option<bool> {
    let mut found = false;
    for entry in list.split(',') {
        let one = |text: &str| {
            let mut rest = text.chars().peekable();
            let day = number(&mut rest, 0, &WEEKDAYS).filter(|day| *day <= 7)?;
            rest.next().is_none().then_some(day % 7)
        };
        found |= if let Some((day, nth)) = entry.split_once('#') {
            let nth: u32 = nth.parse().ok().filter(|nth| (1..=5).contains(nth))?;
            one(day)? == date.weekday && date.day.div_ceil(7) == nth
        } else if let Some(day) = entry.strip_suffix(['L', 'l']) {
            one(day)? == date.weekday && date.day + 7 > date.length
        } else {
            field(entry, 0, 7, &WEEKDAYS)?.contains(&date.weekday)
        };
    }
    Some(found)
}

/// The days with a tick, from the start on.
fn days(day: &str, month: &str, weekday: &str) -> Option<Vec<u64>> {
    let (plus, weekday) =
        weekday.strip_prefix('+').map_or((false, weekday), |weekday| (true, weekday));
    let months = field(month, 1, 12, &MONTHS)?;
    let mut found = Vec::new();
    for (number, date) in dates().enumerate() {
        let (by_day, by_weekday) = (in_days(day, &date)?, in_weekdays(weekday, &date)?);
        // "If both fields are restricted (i.e., do not contain the "*" character), the command will
        // be run when either field matches"; cron looks at the first character.
        let either = !plus && !day.starts_with('*') && !weekday.starts_with('*');
        let matches = if either { by_day || by_weekday } else { by_day && by_weekday };
        if matches && months.contains(&date.month) {
            found.push(number as u64);
        }
    }
    Some(found)
}

/// The seconds of a day with a tick.
fn times(second: &str, minute: &str, hour: &str) -> Option<Vec<u64>> {
    let [seconds, minutes] = [second, minute].map(|text| field(text, 0, 59, &[]));
    let (seconds, minutes, hours) = (seconds?, minutes?, field(hour, 0, 23, &[])?);
    let mut found = Vec::new();
    for hour in &hours {
        for minute in &minutes {
            found.extend(
                seconds.iter().map(|second| u64::from(hour * 3_600 + minute * 60 + second)),
            );
        }
    }
    Some(found)
}

/// The crate's ticks of the expression, if it accepts it.
fn taken(expression: &str) -> Option<Schedule> {
    Schedule::cron(expression).ok().map(Schedule::from)
}

fn taken_days(day: &str, month: &str, weekday: &str) -> Option<Vec<u64>> {
    let schedule = taken(&format!("0 0 {day} {month} {weekday}"))?;
    let ticks = ticks(&schedule, START - 1, START + DAYS as u64 * DAY - 1);
    Some(ticks.into_iter().map(|tick| (tick - START) / DAY).collect())
}

fn taken_times(second: &str, minute: &str, hour: &str) -> Option<Vec<u64>> {
    let schedule = taken(&format!("{second} {minute} {hour} * * *"))?;
    let ticks = ticks(&schedule, START - 1, START + DAY - 1);
    Some(ticks.into_iter().map(|tick| (tick - START) / 1_000).collect())
}

/// An entry as in the manual, without ambiguous forms.
fn entry(low: u32, high: u32, names: &'static [&'static str]) -> BoxedStrategy<String> {
    let name = move |value: u32| match names.get((value - low) as usize) {
        Some(name) if value.is_multiple_of(2) => name.to_ascii_lowercase(),
        Some(name) => (*name).to_owned(),
        None => value.to_string(),
    };
    let range = (low..=high, low..=high).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop_oneof![
        2 => (low..=high).prop_map(|value| value.to_string()),
        1 => (low..=high).prop_map(name),
        2 => range.clone().prop_map(|(a, b)| format!("{a}-{b}")),
        // Not from Sunday to Sunday.
        1 => range.clone().prop_filter("a week", |(a, b)| a % 7 != 0 || b % 7 != 0)
            .prop_map(move |(a, b)| format!("{}-{}", name(a), name(b))),
        1 => range.prop_flat_map(|(a, b)| (Just((a, b)), 1..=(b - a).max(1)))
            .prop_filter("one value", |((a, b), _)| a < b)
            .prop_map(|((a, b), step)| format!("{a}-{b}/{step}")),
    ]
    .boxed()
}

fn valid(low: u32, high: u32, names: &'static [&'static str]) -> BoxedStrategy<String> {
    prop_oneof![
        3 => proptest::collection::vec(entry(low, high, names), 1..4)
            .prop_map(|entries| entries.join(",")),
        1 => Just("*".to_owned()),
        1 => (1..=(high - low) / 2).prop_map(|step| format!("*/{step}")),
    ]
    .boxed()
}

fn valid_day() -> BoxedStrategy<String> {
    let special = prop_oneof![
        Just("L".to_owned()),
        Just("LW".to_owned()),
        (1..=31).prop_map(|day| format!("{day}W")),
    ];
    let entry = prop_oneof![3 => entry(1, 31, &[]), 1 => special];
    let list = proptest::collection::vec(entry, 1..4).prop_map(|entries| entries.join(","));
    prop_oneof![1 => valid(1, 31, &[]), 1 => list].boxed()
}

fn valid_weekday() -> BoxedStrategy<String> {
    let day = prop_oneof![
        (0_u32..=7).prop_map(|day| day.to_string()),
        select(&WEEKDAYS[..]).prop_map(str::to_owned)
    ];
    let special = prop_oneof![
        (day.clone(), 1..=5).prop_map(|(day, nth)| format!("{day}#{nth}")),
        day.prop_map(|day| format!("{day}L")),
    ];
    let entry = prop_oneof![2 => entry(0, 6, &WEEKDAYS), 1 => special];
    let list = proptest::collection::vec(entry, 1..4).prop_map(|entries| entries.join(","));
    let either = prop_oneof![1 => valid(0, 6, &WEEKDAYS), 1 => list];
    (prop_oneof![4 => Just(""), 1 => Just("+")], either)
        .prop_map(|(plus, days)| format!("{plus}{days}"))
        .boxed()
}

/// Parts of expressions in any order.
fn mixed() -> BoxedStrategy<String> {
    let numbers = (0_u32..70).prop_map(|number| number.to_string());
    let signs = select(vec!["*", "/", "-", ",", "L", "W", "#", "?", "+", "LW", "*/", "SUN"]);
    let names = select(vec!["JAN", "DEC", "SUN", "sat", "FRI", "MON", "mar", "MONDAY", "@"]);
    let part = prop_oneof![
        3 => numbers,
        3 => signs.prop_map(str::to_owned),
        1 => names.prop_map(str::to_owned),
    ];
    proptest::collection::vec(part, 1..6).prop_map(|parts| parts.concat()).boxed()
}

/// Every day of the years matches by one field alone, although both are restricted: refused.
fn makes_the_other_useless(day: &str, weekday: &str) -> bool {
    let restricted = |text: &str| !text.starts_with(['*', '+']);
    let always = |day: &str, weekday: &str| days(day, "*", weekday).unwrap().len() == DAYS;
    let all_days = field(day, 1, 31, &[]).is_some_and(|days| days.len() == 31);
    restricted(day) && restricted(weekday) && (all_days || always(day, "*") || always("*", weekday))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn valid_days_match_the_manual(
        day in valid_day(), month in valid(1, 12, &MONTHS), weekday in valid_weekday(),
    ) {
        let expected = days(&day, &month, &weekday).expect("an expression of the manual");
        match taken_days(&day, &month, &weekday) {
            Some(taken) => prop_assert_eq!(taken, expected),
            None => prop_assert!(expected.is_empty() || makes_the_other_useless(&day, &weekday)),
        }
    }

    #[test]
    fn valid_times_match_the_manual(
        second in valid(0, 59, &[]), minute in valid(0, 59, &[]), hour in valid(0, 23, &[]),
    ) {
        let one = |second: &str, minute: &str, hour: &str| {
            let expected = times(second, minute, hour).expect("an expression of the manual");
            prop_assert_eq!(taken_times(second, minute, hour), Some(expected));
            Ok(())
        };
        one(&second, "30", "12")?;
        one("0", &minute, &hour)?;
    }

    #[test]
    fn mixed_days_match_or_are_refused(
        text in mixed(), which in 0..3_usize, day in select(vec!["*", "13"]),
        weekday in select(vec!["*", "FRI"]),
    ) {
        let mut fields = [day, "*", weekday];
        fields[which] = &text;
        let [day, month, weekday] = fields;
        if let Some(taken) = taken_days(day, month, weekday) {
            prop_assert_eq!(Some(taken), days(day, month, weekday));
        }
    }

    #[test]
    fn mixed_times_match_or_are_refused(text in mixed(), which in 0..3_usize) {
        let mut fields = ["0", "30", "12"];
        fields[which] = &text;
        let [second, minute, hour] = fields;
        if let Some(taken) = taken_times(second, minute, hour) {
            prop_assert_eq!(Some(taken), times(second, minute, hour));
        }
    }
}

/// The manual's examples, and expressions that other parsers misread.
#[test]
fn known_expressions_match_the_manual() {
    for (day, month, weekday) in [
        ("*", "*", "1-5"),
        ("1,15", "*", "5"),
        ("*/2", "*", "MON"),
        ("1", "*", "*/2"),
        ("*/2", "*", "*/3"),
        ("1-31/2", "*", "MON"),
        ("13", "*", "*/2"),
        ("L,LW", "*", "*"),
        ("L,15W", "*", "*"),
        ("LW,15W,31", "*", "*"),
        ("1W,31W", "*", "*"),
        ("L", "FEB", "SUN"),
        ("*", "*", "7L"),
        ("13", "*", "SUNL"),
        ("*", "*", "7#5,SUN#1"),
        ("*", "*", "FRI#1,FRIL"),
        ("*", "*", "FRI#2,FRI#3,FRI#4,FRI#5"),
        ("*", "*", "SAT-SUN"),
        ("*", "*", "MON-SUN"),
        ("*", "*", "*/7"),
        ("*", "*", "5-7"),
        ("*", "*", "1-7/2"),
        ("*", "jan-mar,DEC", "SUN-TUE"),
        ("1-7", "*", "+MON"),
    ] {
        let expected = days(day, month, weekday).expect("an expression of the manual");
        assert_eq!(taken_days(day, month, weekday), Some(expected), "{day} {month} {weekday}");
    }
}
