//! Which tick runs, rule by rule.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{super::given_up, *};

#[test]
fn tick_runs_once_at_its_start() {
    let (schedule, policy) = every_ten();
    let ask = |record, now| due(&schedule, JOB, &policy, &record, at(now));
    assert_eq!(ask(NEW, 9), wait(10, None));
    assert_eq!(ask(NEW, 10), run(10, None));
    assert_eq!(ask(ran(10), 10), wait(20, None));
    assert_eq!(ask(ran(10), 19), wait(20, None));
    assert_eq!(ask(ran(10), 20), run(20, None));
}

#[test]
fn tick_is_missed_after_start_within() {
    let (schedule, policy) = every_ten();
    let ask = |millis| due(&schedule, JOB, &policy, &ran(10), WallTime::from_millis(millis));
    assert_eq!(ask(22_000), run(20, None));
    assert_eq!(ask(22_001), wait(30, missed(1, 20, 20)));
}

#[test]
fn tick_is_missed_when_next_starts() {
    let (schedule, policy) = every_ten();
    let policy = Policy { start_within: seconds(60), ..policy };
    let ask = |now| due(&schedule, JOB, &policy, &ran(10), at(now));
    assert_eq!(ask(29), run(20, None));
    assert_eq!(ask(30), run(30, missed(1, 20, 20)));
}

#[test]
fn thousand_missed_ticks_are_all_counted() {
    let (schedule, policy) = every_ten();
    let ask = |now| due(&schedule, JOB, &policy, &ran(10), at(now));
    assert_eq!(ask(10_013), wait(10_020, missed(1_000, 20, 10_010)));
    let more = MissedTicks { count: 1_000, at_least: true, first: at(20), last: at(10_020) };
    assert_eq!(ask(10_023), wait(10_030, Some(more)));
}

#[test]
fn ticks_before_registration_are_not_missed() {
    let schedule = Schedule::every(seconds(10));
    for missed in [Missed::Skip, Missed::RunLatest, Missed::RunAll { at_most: 5 }] {
        let policy = policy(missed, Overlap::Skip);
        let record = JobRecord { base: at(30), ..NEW };
        assert_eq!(due(&schedule, JOB, &policy, &record, at(30)), wait(40, None));
    }
}

/// The fleet was down from tick 30 to 90, and is back between two ticks.
#[test]
fn policy_decides_missed_ticks_after_outage() {
    let schedule = Schedule::every(seconds(10));
    let ask = |missed| drain(&schedule, &policy(missed, Overlap::Skip), ran(20), at(95));
    let ticks = |seconds: &[u64]| seconds.iter().copied().map(at).collect::<Vec<_>>();
    let given_up = |count, last| missed(count, 30, last).into_iter().collect::<Vec<_>>();

    assert_eq!(ask(Missed::Skip), (ticks(&[]), given_up(7, 90)));
    assert_eq!(ask(Missed::RunLatest), (ticks(&[90]), given_up(6, 80)));
    assert_eq!(ask(Missed::RunAll { at_most: 3 }), (ticks(&[70, 80, 90]), given_up(4, 60)));
    let all = ticks(&[30, 40, 50, 60, 70, 80, 90]);
    assert_eq!(ask(Missed::RunAll { at_most: 7 }), (all.clone(), Vec::new()));
    assert_eq!(ask(Missed::RunAll { at_most: usize::MAX }), (all, Vec::new()));
    assert_eq!(ask(Missed::RunAll { at_most: 1 }), ask(Missed::RunLatest));
    assert_eq!(ask(Missed::RunAll { at_most: 0 }), ask(Missed::Skip));
}

/// The same outage, but the fleet is back just as a tick comes.
#[test]
fn tick_on_time_runs_after_outage() {
    let schedule = Schedule::every(seconds(10));
    let ask = |missed| drain(&schedule, &policy(missed, Overlap::Skip), ran(20), at(91)).0;
    assert_eq!(ask(Missed::Skip), [at(90)]);
    assert_eq!(ask(Missed::RunLatest), [at(90)]);
    assert_eq!(ask(Missed::RunAll { at_most: 3 }), [at(70), at(80), at(90)]);
}

#[test]
fn starts_before_window_are_given_up() {
    let schedule = Schedule::every(seconds(10));
    let ask = |missed, catch_up| {
        let policy = Policy { catch_up: seconds(catch_up), ..policy(missed, Overlap::Skip) };
        drain(&schedule, &policy, ran(20), at(95)).0
    };
    let all = Missed::RunAll { at_most: 100 };

    assert_eq!(ask(all, 25), [at(70), at(80), at(90)], "its first moment is in the window");
    assert_eq!(ask(all, 24), [at(80), at(90)]);
    assert_eq!(ask(all, 4), []);
    assert_eq!(ask(Missed::RunLatest, 5), [at(90)]);
    assert_eq!(ask(Missed::RunLatest, 4), []);
}

#[test]
fn tick_on_time_needs_no_window() {
    let schedule = Schedule::every(seconds(10));
    for missed in [Missed::RunLatest, Missed::RunAll { at_most: 5 }] {
        let policy = Policy { catch_up: seconds(0), ..policy(missed, Overlap::Skip) };
        assert_eq!(drain(&schedule, &policy, ran(20), at(91)).0, [at(90)]);
    }
}

#[test]
fn interrupted_run_goes_first() {
    let (schedule, policy) = every_ten();
    let interrupted = JobRecord { last_end: None, unfinished: true, ..ran(20) };
    let again = Due::Run { tick: at(20), start: at(20), again: true, missed: None };

    // Holds for clocks that are behind and ahead.
    for now in [5, 20, 25, 1_000_000] {
        assert_eq!(due(&schedule, JOB, &policy, &interrupted, at(now)), again);
    }
    assert_eq!(due(&schedule, JOB, &policy, &ran_until(20, 29), at(30)), run(30, None));

    // Nothing was claimed, so there is nothing to repeat.
    let odd = JobRecord { unfinished: true, ..NEW };

    assert_eq!(due(&schedule, JOB, &policy, &odd, at(9)), wait(10, None));
}

#[test]
fn window_or_attempts_end_broken_runs() {
    let schedule = Schedule::every(seconds(10));
    let policy = Policy { catch_up: seconds(100), max_attempts: 3, ..Policy::default() };
    let interrupted = JobRecord { last_end: None, unfinished: true, attempt: 1, ..ran(20) };
    let ask = |record: &JobRecord, now| given_up(&schedule, JOB, &policy, record, at(now));

    assert_eq!(ask(&interrupted, 120), None);
    assert_eq!(ask(&interrupted, 121), Some(at(20)));
    let often = |attempt| JobRecord { attempt, ..interrupted.clone() };

    assert_eq!(
        [2, 3, 4].map(|attempt| ask(&often(attempt), 30)),
        [None, Some(at(20)), Some(at(20))]
    );
    assert_eq!(ask(&JobRecord { unfinished: false, ..often(9) }, 1_000), None);
}

#[test]
fn ticks_before_schedule_change_are_ignored() {
    let schedule = Schedule::every(seconds(10));
    for missed in [Missed::Skip, Missed::RunLatest, Missed::RunAll { at_most: 5 }] {
        let policy = policy(missed, Overlap::Skip);
        let changed = JobRecord { base: at(75), ..ran(20) };
        assert_eq!(due(&schedule, JOB, &policy, &changed, at(79)), wait(80, None));
        assert_eq!(due(&schedule, JOB, &policy, &changed, at(80)), run(80, None));
    }
}

#[test]
fn possibly_run_ticks_are_not_repeated() {
    let schedule = Schedule::every(seconds(10));
    let policy = policy(Missed::RunLatest, Overlap::Skip);
    let forgotten = JobRecord { assumed_run_until: Some(at(45)), ..NEW };
    assert_eq!(due(&schedule, JOB, &policy, &forgotten, at(49)), wait(50, None));
    assert_eq!(due(&schedule, JOB, &policy, &forgotten, at(55)), run(50, None));
}

#[test]
fn clock_behind_watermark_waits_beyond_it() {
    let (schedule, policy) = every_ten();
    assert_eq!(due(&schedule, JOB, &policy, &ran(50), at(15)), wait(60, None));
}

/// Berlin, 26 October 2025: at three o'clock, 01:00 UTC, it is two again.
#[cfg(feature = "cron")]
#[test]
fn repeated_hour_is_caught_up() {
    let midnight = 1_761_436_800 - 2 * 3_600;
    let down_since = JobRecord { base: at(midnight), ..NEW };
    let policy = policy(Missed::RunAll { at_most: 100 }, Overlap::Skip);
    let hours = |expression| {
        let schedule = Schedule::cron(expression).unwrap().in_tz("Europe/Berlin").unwrap().into();
        let (runs, given_up) =
            drain(&schedule, &policy, down_since.clone(), at(midnight + 5 * 3_600 + 60));
        assert_eq!(given_up, []);
        let hour = |tick: WallTime| (tick.as_millis() / 1_000 - midnight) / 1_800;
        runs.into_iter().map(hour).collect::<Vec<_>>()
    };

    // In half hours since midnight. An interval runs in both hours, a fixed time in the first.
    assert_eq!(hours("30 */1 * * *"), [1, 3, 5, 7, 9]);
    assert_eq!(hours("30 2 * * *"), [5]);
}

#[test]
fn single_tick_runs_or_is_missed() {
    let schedule = Schedule::at(UNIX_EPOCH + seconds(10));
    let ask =
        |missed, record, now| due(&schedule, JOB, &policy(missed, Overlap::Skip), &record, at(now));
    let never = |missed| Due::Never { missed };

    assert_eq!(ask(Missed::Skip, NEW, 5), wait(10, None));
    assert_eq!(ask(Missed::Skip, NEW, 10), run(10, None));
    assert_eq!(ask(Missed::Skip, ran(10), 10), never(None));
    assert_eq!(ask(Missed::Skip, NEW, 13), never(missed(1, 10, 10)));
    assert_eq!(ask(Missed::RunLatest, NEW, 13), run(10, None));
    assert_eq!(ask(Missed::RunLatest, JobRecord { base: at(11), ..NEW }, 13), never(None));
}

#[test]
fn ended_or_invalid_schedule_never_runs() {
    let ends = Schedule::custom("once", |after: WallTime| (after < at(20)).then_some(at(20)));
    let (_, policy) = every_ten();
    assert_eq!(due(&ends, JOB, &policy, &NEW, at(20)), run(20, None));
    assert_eq!(due(&ends, JOB, &policy, &ran(20), at(20)), Due::Never { missed: None });
    let wrong = [Schedule::every(seconds(0)), Schedule::at(SystemTime::UNIX_EPOCH)];
    for schedule in wrong {
        assert_eq!(due(&schedule, JOB, &policy, &NEW, at(20)), Due::Never { missed: None });
    }
}
