//! A job whose runs take longer than its period, at a replica that always looks in time.

use super::{super::next_overlap, *};

/// Returns the ticks that ran and when each run ended, in seconds.
fn runs(
    missed: Missed,
    overlap: Overlap,
    takes: impl Fn(u64) -> u64,
    until: u64,
) -> Vec<(u64, u64)> {
    let schedule = Schedule::every(seconds(10));
    let policy = policy(missed, overlap);
    let mut record = NEW;
    let mut now = at(0);
    let mut runs = Vec::new();
    let second = |time: WallTime| time.as_millis() / 1_000;
    while now < at(until) {
        match due(&schedule, JOB, &policy, &record, now) {
            Due::Run { tick, start, again, .. } => {
                assert!(start <= now && !again);
                let ends = at(second(now) + takes(second(tick)));
                let next = next_overlap(&schedule, JOB, tick, now);
                let stop = next.filter(|_| overlap == Overlap::Stop).map(|(_, start)| start);
                now = stop.map_or(ends, |stop| stop.min(ends));
                runs.push((second(tick), second(now)));
                record = JobRecord { tick: Some(tick), last_end: Some(now), ..record };
            }
            Due::Wait { start, .. } => {
                assert!(start > now);
                now = start;
            }
            Due::Never { .. } => break,
        }
    }
    runs
}

/// Takes two periods and a half.
fn slow(_: u64) -> u64 {
    25
}

/// Takes that long once, then almost no time.
fn slow_once(tick: u64) -> u64 {
    if tick == 10 { 25 } else { 1 }
}

#[test]
fn skipped_ticks_leave_a_pause() {
    let runs = runs(Missed::Skip, Overlap::Skip, slow, 100);
    assert_eq!(runs, [(10, 35), (40, 65), (70, 95)]);
}

#[test]
fn the_latest_runs_without_a_pause() {
    let expected = [(10, 35), (30, 60), (60, 85), (80, 110)];
    assert_eq!(runs(Missed::RunLatest, Overlap::Skip, slow, 100), expected);
    // The waiting tick is also the latest one.
    assert_eq!(runs(Missed::Skip, Overlap::Queue, slow, 100), expected);
    assert_eq!(runs(Missed::RunLatest, Overlap::Queue, slow, 100), expected);
}

#[test]
fn slow_job_lags_by_at_most() {
    let all = |at_most| runs(Missed::RunAll { at_most }, Overlap::Skip, slow, 150);
    let two = [(10, 35), (20, 60), (50, 85), (70, 110), (100, 135), (120, 160)];
    assert_eq!(all(2), two);
    let many = [(10, 35), (20, 60), (30, 85), (40, 110), (50, 135), (60, 160)];
    assert_eq!(all(100), many);
    assert_eq!(all(1), runs(Missed::RunLatest, Overlap::Skip, slow, 150));
    assert_eq!(all(0), runs(Missed::Skip, Overlap::Skip, slow, 150));
}

#[test]
fn long_run_is_caught_up() {
    let expect = |missed, overlap, expected: &[(u64, u64)]| {
        assert_eq!(runs(missed, overlap, slow_once, 60), expected, "{missed:?} {overlap:?}");
    };

    expect(Missed::Skip, Overlap::Skip, &[(10, 35), (40, 41), (50, 51)]);
    expect(Missed::RunLatest, Overlap::Skip, &[(10, 35), (30, 36), (40, 41), (50, 51)]);
    expect(Missed::Skip, Overlap::Queue, &[(10, 35), (30, 36), (40, 41), (50, 51)]);
    let all = [(10, 35), (20, 36), (30, 37), (40, 41), (50, 51)];
    expect(Missed::RunAll { at_most: 9 }, Overlap::Skip, &all);
    expect(Missed::RunAll { at_most: 9 }, Overlap::Queue, &all);
}

#[test]
fn each_tick_stops_the_run_before() {
    for missed in [Missed::Skip, Missed::RunLatest, Missed::RunAll { at_most: 9 }] {
        let stopped = runs(missed, Overlap::Stop, slow, 50);
        assert_eq!(stopped, [(10, 20), (20, 30), (30, 40), (40, 50)], "{missed:?}");
    }
}
