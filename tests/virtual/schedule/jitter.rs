//! Jitter moves starts, not ticks.

use std::{collections::HashSet, time::Duration};

use tower_redlock::{Schedule, schedule::WallTime};

use crate::durations::MINUTE;
use crate::schedule::tools::{at, ticks};

#[test]
fn replicas_agree_on_start_and_tick() {
    let plain = Schedule::every(MINUTE);
    let [one, other] = [(); 2].map(|()| Schedule::every(MINUTE).jitter(MINUTE / 6));
    assert_eq!(ticks(&one, 0, 600_000), ticks(&plain, 0, 600_000));
    let mut starts = HashSet::new();
    for tick in one.ticks(at(0), at(6_000_000)) {
        let start = one.start("report", tick);
        assert_eq!(start, other.start("report", tick));
        let delay = start.as_millis() - tick.as_millis();
        assert!(delay < 10_000, "{delay}");
        starts.insert(delay);
        assert_eq!(plain.start("report", tick), tick);
    }
    assert!(starts.len() > 90, "{}", starts.len());
    assert_ne!(one.start("report", at(60_000)), one.start("bill", at(60_000)));
}

#[test]
fn start_precedes_the_next_tick() {
    let schedule = Schedule::every(Duration::from_millis(3)).jitter(Duration::MAX);
    let starts: Vec<_> = schedule
        .ticks(at(0), at(3_000))
        .map(|tick| (tick, schedule.start("report", tick)))
        .collect();
    assert!(starts.windows(2).all(|pair| pair[0].1 < pair[1].0), "{starts:?}");
    assert!(starts.iter().any(|(tick, start)| start != tick));
}

#[test]
fn the_last_moments_have_starts_too() {
    let schedule = Schedule::at(WallTime::MAX.into()).jitter(Duration::MAX);
    assert_eq!(schedule.start("report", WallTime::MAX), WallTime::MAX);
    let schedule = Schedule::every_after(MINUTE).jitter(MINUTE);
    let start = schedule.start("report", at(5));
    assert!((5..60_005).contains(&start.as_millis()), "{start:?}");
}
