//! Jitter, and clocks that change.

use super::*;

/// Neighbouring ticks, each put off by its own delay.
#[test]
fn tick_is_due_at_its_start() {
    let schedule = Schedule::every(seconds(10)).jitter(seconds(10));
    let policy = policy(Missed::Skip, Overlap::Skip);

    for tick in (20..2_000).step_by(10) {
        let start = schedule.start(JOB, at(tick));
        let millis = start.as_millis();
        let ask = |now| due(&schedule, JOB, &policy, &ran(tick - 10), WallTime::from_millis(now));
        let wait = Due::Wait { tick: at(tick), start, missed: None };
        let run = Due::Run { tick: at(tick), start, again: false, missed: None };
        assert_eq!(ask(tick * 1_000 - 1), wait);
        if millis > tick * 1_000 {
            assert_eq!(ask(millis - 1), wait);
        }
        assert_eq!(ask(millis), run);
        // It is on time from its start until the start of the next tick, even after the next tick.
        let next_start = schedule.start(JOB, at(tick + 10)).as_millis();
        assert_eq!(ask((millis + 2_000).min(next_start - 1)), run);
    }
}

#[test]
fn start_within_window_counts() {
    let schedule = Schedule::every(seconds(10)).jitter(seconds(10));
    let start = schedule.start(JOB, at(70));

    assert!(start > at(70), "choose a job whose jitter is not zero");
    let now = schedule.start(JOB, at(90)).max(at(95));
    let within = now.as_millis() - start.as_millis();
    let ask = |millis| {
        let policy = Policy {
            catch_up: Duration::from_millis(millis),
            ..policy(Missed::RunAll { at_most: 9 }, Overlap::Skip)
        };
        drain(&schedule, &policy, ran(20), now).0
    };

    assert_eq!(ask(within), [at(70), at(80), at(90)]);
    assert_eq!(ask(within - 1), [at(80), at(90)]);
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
