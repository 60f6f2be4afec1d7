//! Schedules that count from the last end.

use super::*;

fn ask(record: &JobRecord, now: u64) -> Due {
    due(&Schedule::every_after(seconds(10)), JOB, &Policy::default(), record, at(now))
}

#[test]
fn the_first_run_is_at_once() {
    assert_eq!(ask(&JobRecord { base: at(5), ..NEW }, 5), run(5, None));
    let behind = ask(&JobRecord { base: at(5), ..NEW }, 4);
    assert_eq!(behind, wait(5, None));
}

#[test]
fn next_run_follows_end_by_delay() {
    assert_eq!(ask(&ran_until(5, 8), 8), wait(18, None));
    assert_eq!(ask(&ran_until(5, 8), 18), run(18, None));
    // The tick does not depend on the moment of the call, so that replicas agree on it.
    assert_eq!(ask(&ran_until(5, 8), 27), run(18, None));
}

#[test]
fn triggered_run_delays_the_first() {
    assert_eq!(ask(&JobRecord { last_end: Some(at(8)), ..NEW }, 9), wait(18, None));
}

#[test]
fn what_is_lost_puts_nothing_off() {
    // The servers are new or forgot, so it is unknown whether there was a run.
    let fresh = JobRecord { base: at(50), assumed_run_until: Some(at(49)), ..NEW };

    assert_eq!(ask(&fresh, 50), run(50, None));

    // A tick is not used again.
    let behind = JobRecord { base: at(5), assumed_run_until: Some(at(49)), ..NEW };
    let soonest = WallTime::from_millis(49_001);

    assert_eq!(ask(&behind, 20), Due::Wait { tick: soonest, start: soonest, missed: None });
    // A known run counts.
    assert_eq!(
        ask(&JobRecord { assumed_run_until: Some(at(7)), ..ran_until(5, 8) }, 9),
        wait(18, None)
    );
}

#[test]
fn unknown_end_counts_from_the_tick() {
    let interrupted = JobRecord { last_end: None, ..ran(5) };
    assert_eq!(ask(&interrupted, 6), wait(15, None));
    assert_eq!(ask(&interrupted, 15), run(15, None));
    let unfinished = JobRecord { unfinished: true, ..interrupted };
    let again = Due::Run { tick: at(5), start: at(5), again: true, missed: None };
    assert_eq!(ask(&unfinished, 6), again);
}

#[test]
fn tick_exceeds_watermark_despite_clocks() {
    let record = JobRecord { last_end: Some(at(1)), ..ran(60) };
    let soonest = WallTime::from_millis(60_001);
    assert_eq!(ask(&record, 20), Due::Wait { tick: soonest, start: soonest, missed: None });
}

/// Each run is interrupted at once. If ticks were a delay apart since before the outage, all ticks
/// that have passed would run without a pause.
#[test]
fn outage_is_not_caught_up() {
    let mut record = ran(10);
    assert_eq!(ask(&record, 1_000), run(1_000, None));
    record = JobRecord { tick: Some(at(1_000)), last_end: None, ..record };
    assert_eq!(ask(&record, 1_000), wait(1_010, None));
}

#[test]
fn jitter_delays_but_never_cancels() {
    let schedule = Schedule::every_after(seconds(10)).jitter(seconds(30));
    let record = ran_until(5, 8);
    let start = schedule.start(JOB, at(18));

    assert!(start > at(18), "choose a job whose jitter is not zero");
    let ask = |now| due(&schedule, JOB, &Policy::default(), &record, now);
    let tick = at(18);
    assert_eq!(ask(at(18)), Due::Wait { tick, start, missed: None });
    assert_eq!(ask(start), Due::Run { tick, start, again: false, missed: None });
    let late = at(start.as_millis() / 1_000 + 11);
    let run = Due::Run { tick: late, start: late, again: false, missed: None };

    assert_eq!(ask(late), run);
}

#[test]
fn no_run_beyond_maximum_time() {
    let record = JobRecord { last_end: Some(WallTime::MAX), ..ran(5) };
    assert_eq!(ask(&record, 6), Due::Never { missed: None });
}
