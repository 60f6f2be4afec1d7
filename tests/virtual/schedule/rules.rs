//! Periods, delays, single moments, custom rules.

use std::time::{Duration, SystemTime};

use tower_redlock::{Schedule, schedule::WallTime};

use crate::schedule::tools::{at, ticks};

#[test]
fn offset_moves_every_tick() {
    let schedule = Schedule::every(Duration::from_millis(250)).offset(Duration::from_millis(40));
    assert_eq!(ticks(&schedule, 0, 1_000), [40, 290, 540, 790]);
    assert_eq!(ticks(&schedule, 39, 40), [40]);
    assert_eq!(ticks(&schedule, 40, 290), [290]);
    assert_eq!(schedule.latest(at(289)), Some(at(40)));
    assert_eq!(schedule.latest(at(39)), None);
    let hour = Duration::from_secs(3_600);
    let daily = Schedule::every(24 * hour).offset(3 * hour);
    let next = daily.next(at(1_763_715_286_123), None).unwrap();
    assert_eq!(next.to_string(), "2025-11-22T03:00:00Z");
    let back = daily.offset(Duration::ZERO);
    assert_eq!(back.next(at(0), None), Some(at(86_400_000)), "the last one given counts");
    assert_eq!(back.latest(at(86_399_999)), None);
}

#[test]
fn ticks_iterate_from_both_ends() {
    let schedule = Schedule::every(Duration::from_millis(1));
    let mut missed = schedule.ticks(WallTime::ZERO, WallTime::MAX);
    assert_eq!(missed.next(), Some(at(1)));
    assert_eq!(missed.next_back(), Some(WallTime::MAX));
    assert_eq!(missed.next_back(), Some(at(WallTime::MAX.as_millis() - 1)));
    assert_eq!(missed.next(), Some(at(2)));
    let few: Vec<_> = schedule.ticks(at(10), at(13)).rev().collect();
    assert_eq!(few, [at(13), at(12), at(11)]);
    let mut few = schedule.ticks(at(10), at(13));
    assert_eq!(
        (few.next_back(), few.next(), few.next()),
        (Some(at(13)), Some(at(11)), Some(at(12)))
    );
    assert_eq!((few.next(), few.next_back()), (None, None));
    assert_eq!(schedule.ticks(at(10), at(10)).count(), 0);
    assert_eq!(schedule.ticks(at(10), at(9)).next_back(), None);
}

#[test]
fn delay_counts_from_last_end() {
    let schedule = Schedule::every_after(Duration::from_secs(10));

    assert_eq!(schedule.next(at(5_000), None), Some(at(5_001)), "the first is due at once");
    assert_eq!(schedule.next(at(5_000), Some(at(7_500))), Some(at(17_500)));
    // Long after the last end it is due, and still after the given moment.
    assert_eq!(schedule.next(at(90_000), Some(at(7_500))), Some(at(90_001)));
    assert_eq!(schedule.latest(WallTime::MAX), None);
    assert!(ticks(&schedule, 0, 1_000_000).is_empty());
    assert_eq!(schedule.next(WallTime::MAX, None), None);
    assert_eq!(schedule.next(at(5_000), Some(WallTime::MAX)), None);
}

#[test]
fn period_ignores_the_last_end() {
    let schedule = Schedule::every(Duration::from_secs(10));
    assert_eq!(schedule.next(at(5_000), Some(at(9_000))), Some(at(10_000)));
}

#[test]
fn single_moment_ticks_once() {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_micros(1_500_200);
    let schedule = Schedule::at(moment);
    assert_eq!(ticks(&schedule, 0, u64::MAX), [1_501]);
    assert_eq!(schedule.next(at(1_501), None), None);
    assert_eq!(schedule.latest(WallTime::MAX), Some(at(1_501)));
    assert_eq!(schedule.latest(at(1_500)), None);
}

#[test]
fn custom_rule_ends_when_not_increasing() {
    let primes = [2, 3, 5, 7, 11].map(at);
    let schedule =
        Schedule::custom("primes", move |after| primes.into_iter().find(|prime| *prime > after));
    assert_eq!(ticks(&schedule, 2, 100), [3, 5, 7, 11]);
    assert_eq!(schedule.latest(at(10)), Some(at(7)));
    assert!(schedule.check().is_ok());
    let stuck = Schedule::custom("stuck", |_| Some(at(7)));
    assert_eq!(ticks(&stuck, 0, 100), [7]);
    assert_eq!(stuck.latest(at(100)), Some(at(7)));
}
