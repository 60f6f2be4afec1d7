//! A year of ticks in three time zones, against the output of `expected.py`, which checks each
//! minute.

use tower_redlock::{Schedule, schedule::WallTime};

use crate::schedule::tools::at;

/// 2025-01-01T00:00Z and 2026-01-01T00:00Z.
const YEAR: (u64, u64) = (1_735_689_600_000, 1_767_225_600_000);
const MINUTE: u64 = 60_000;

struct Line {
    name: String,
    schedule: Schedule,
    ticks: Vec<u64>,
}

fn parse(line: &str) -> Line {
    let [expression, zone, first, runs] =
        line.split('|').map(str::trim).collect::<Vec<_>>().try_into().expect("four columns");
    let mut ticks = vec![first.parse::<u64>().unwrap() * MINUTE];
    for run in runs.split(',') {
        let (distance, count) = run.split_once('x').unwrap();
        for _ in 0..count.parse().unwrap() {
            ticks.push(ticks.last().unwrap() + distance.parse::<u64>().unwrap() * MINUTE);
        }
    }
    let schedule = Schedule::cron(expression).unwrap().in_tz(zone).unwrap().into();
    Line { name: format!("{expression} in {zone}"), schedule, ticks }
}

fn lines() -> Vec<Line> {
    let text = include_str!("expected.txt").lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<_> = text.map(parse).collect();
    assert_eq!(lines.len(), 3 * 18);
    lines
}

#[test]
fn ticks_match_the_expected_year() {
    for Line { name, schedule, ticks } in lines() {
        let found = schedule.ticks(at(YEAR.0 - 1), at(YEAR.1 - 1)).map(WallTime::as_millis);
        let mut expected = ticks.iter().copied();
        for (n, tick) in found.enumerate() {
            assert_eq!(Some(tick), expected.next(), "{name}: tick {n}");
        }
        assert_eq!(expected.next(), None, "{name}: missing");
    }
}

#[test]
fn latest_tick_is_found_anywhere() {
    for Line { name, schedule, ticks } in lines() {
        for pair in ticks.windows(2).step_by(ticks.len().div_ceil(200)) {
            for moment in [pair[0], pair[0] + 1, pair[1] - 1] {
                assert_eq!(schedule.latest(at(moment)), Some(at(pair[0])), "{name} at {moment}");
            }
        }
        let mut newest = schedule.ticks(at(0), at(YEAR.1 - 1)).rev().map(WallTime::as_millis);
        for tick in ticks.iter().rev().take(3) {
            assert_eq!(newest.next(), Some(*tick), "{name}");
        }
    }
}
