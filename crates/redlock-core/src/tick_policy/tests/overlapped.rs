//! Runs that outlast the next tick.

use super::{super::next_overlap, *};

/// The run of tick 10 ended at 37: ticks 20 and 30 came during it.
#[test]
fn overlapped_tick_is_missed_or_queued() {
    let schedule = Schedule::every(seconds(10));
    let ask = |missed, overlap, now| {
        due(&schedule, JOB, &policy(missed, overlap), &ran_until(10, 37), at(now))
    };

    assert_eq!(ask(Missed::Skip, Overlap::Skip, 37), wait(40, missed(2, 20, 30)));
    assert_eq!(ask(Missed::RunLatest, Overlap::Skip, 37), run(30, missed(1, 20, 20)));
    assert_eq!(ask(Missed::RunAll { at_most: 5 }, Overlap::Skip, 37), run(20, None));
    for overlap in [Overlap::Queue, Overlap::Stop] {
        assert_eq!(ask(Missed::Skip, overlap, 37), run(30, missed(1, 20, 20)));
        assert_eq!(ask(Missed::RunLatest, overlap, 37), run(30, missed(1, 20, 20)));
        assert_eq!(ask(Missed::RunAll { at_most: 5 }, overlap, 37), run(20, None));
        // The tick waited for the run, so its time counts from the end of the run.
        assert_eq!(ask(Missed::Skip, overlap, 39), run(30, missed(1, 20, 20)));
    }
    let late = policy(Missed::Skip, Overlap::Queue);
    let now = WallTime::from_millis(39_001);
    let answer = due(&schedule, JOB, &late, &ran_until(10, 37), now);

    assert_eq!(answer, wait(40, missed(2, 20, 30)));
}

#[test]
fn end_at_tick_start_overlaps() {
    let schedule = Schedule::every(seconds(10));
    let policy = policy(Missed::Skip, Overlap::Skip);
    let ask = |end| {
        let record = JobRecord { last_end: Some(WallTime::from_millis(end)), ..ran(10) };
        due(&schedule, JOB, &policy, &record, at(20))
    };
    assert_eq!(ask(19_999), run(20, None));
    assert_eq!(ask(20_000), wait(30, missed(1, 20, 20)));
}

#[test]
fn triggered_run_overlaps_ticks() {
    let (schedule, policy) = every_ten();
    let triggered = JobRecord { last_end: Some(at(21)), ..NEW };
    assert_eq!(due(&schedule, JOB, &policy, &triggered, at(21)), wait(30, missed(2, 10, 20)));
}

#[test]
fn unknown_end_overlaps_nothing() {
    let (schedule, policy) = every_ten();
    let interrupted = JobRecord { last_end: None, ..ran(10) };
    assert_eq!(due(&schedule, JOB, &policy, &interrupted, at(21)), run(20, None));
}

#[test]
fn each_overlapping_tick_is_found_once() {
    let schedule = Schedule::every(seconds(10));
    let ask = |running, seen| {
        next_overlap(&schedule, JOB, at(running), at(seen)).map(|(tick, start)| {
            assert_eq!(tick, start);
            tick
        })
    };

    assert_eq!(ask(10, 10), Some(at(20)));
    assert_eq!(ask(10, 19), Some(at(20)));
    assert_eq!(ask(10, 20), Some(at(30)));
    // For a missed tick, the ticks before `seen` are not overlaps of its run.
    assert_eq!(ask(10, 95), Some(at(100)));
    // The clock is behind the tick.
    assert_eq!(ask(50, 15), Some(at(60)));
}

#[test]
fn schedules_without_ticks_never_overlap() {
    let after_end = Schedule::every_after(seconds(10));
    assert_eq!(next_overlap(&after_end, JOB, at(10), at(10)), None);
    let once = Schedule::at(std::time::UNIX_EPOCH + seconds(10));
    assert_eq!(next_overlap(&once, JOB, at(10), at(10)), None);
}

#[test]
fn jitter_moves_the_overlapping_start() {
    let schedule = Schedule::every(seconds(10)).jitter(seconds(10));
    let start = schedule.start(JOB, at(20));

    assert!(start > at(20), "choose a job whose jitter is not zero");
    let just_before = WallTime::from_millis(start.as_millis() - 1);
    assert_eq!(next_overlap(&schedule, JOB, at(10), at(20)), Some((at(20), start)));
    assert_eq!(next_overlap(&schedule, JOB, at(10), just_before), Some((at(20), start)));
    let next = Some((at(30), schedule.start(JOB, at(30))));

    assert_eq!(next_overlap(&schedule, JOB, at(10), start), next);
    // The run's own start does not count as an overlap.
    assert_eq!(next_overlap(&schedule, JOB, at(20), at(20)), next);
}
