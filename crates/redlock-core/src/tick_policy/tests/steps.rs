//! The number of steps after a long outage.

use std::sync::Arc;

use super::{
    super::{MAX_STEPS, next_overlap},
    *,
};
use std::sync::atomic::{AtomicUsize, Ordering};

const YEAR: u64 = 365 * 24 * 60 * 60;
/// Maximum number of calls to find one tick backwards.
const BACK: usize = 100;

/// A tick every `millis`, and the number of calls of the rule.
fn counted(millis: u64) -> (Schedule, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let schedule = Schedule::custom("counted", move |after: WallTime| {
        let asked = count.fetch_add(1, Ordering::Relaxed);
        assert!(asked < 1_000_000, "does not end");
        Some(WallTime::from_millis((after.as_millis() / millis + 1) * millis))
    });
    (schedule.jitter(Duration::from_millis(millis / 2)), asked)
}

#[test]
fn missed_year_takes_bounded_steps() {
    let down_since = ran(YEAR);
    let now = at(2 * YEAR + 7);

    for millis in [1, 2, 1_000, 60_000] {
        let (schedule, asked) = counted(millis);
        let steps = |missed| {
            asked.store(0, Ordering::Relaxed);
            let policy = policy(missed, Overlap::Skip);
            let answer = due(&schedule, JOB, &policy, &down_since, now);
            (answer, asked.load(Ordering::Relaxed))
        };
        for missed in [Missed::Skip, Missed::RunLatest, Missed::RunAll { at_most: 0 }] {
            let (answer, taken) = steps(missed);
            assert!(taken <= MAX_STEPS + 5 * BACK, "{missed:?} {millis}: {taken}, {answer:?}");
        }
        for at_most in [10, 1_000, usize::MAX] {
            let (answer, taken) = steps(Missed::RunAll { at_most });
            let most = 2 * MAX_STEPS + (at_most.min(MAX_STEPS) + 5) * BACK;
            assert!(taken <= most, "{at_most} {millis}: {taken}, {answer:?}");
            let Due::Run { tick, missed: Some(missed), .. } = answer else {
                panic!("{at_most} {millis}: {answer:?}");
            };
            // The configured number, at most a thousand, is left to run.
            let newest = schedule.ticks(tick, now).rev().take(2);
            let newest = newest.into_iter().find(|tick| schedule.start(JOB, *tick) <= now);
            let behind = newest.map_or(0, |newest| newest.as_millis() - tick.as_millis()) / millis;
            assert_eq!(behind + 1, at_most.min(MAX_STEPS) as u64, "{millis}");
            assert_eq!((missed.count, missed.at_least), (MAX_STEPS as u64, true));
            assert_eq!(missed.first.as_millis(), YEAR * 1_000 + millis);
            assert_eq!(missed.last.as_millis(), tick.as_millis() - millis);
        }
    }
}

#[test]
fn old_overlap_takes_few_steps() {
    for millis in [1, 1_000, 60_000] {
        let (schedule, asked) = counted(millis);
        let (_, start) = next_overlap(&schedule, JOB, at(YEAR), at(2 * YEAR)).expect("a tick");
        assert!(start > at(2 * YEAR));
        assert!(asked.load(Ordering::Relaxed) <= 2 * BACK);
    }
}
