use super::{
    MissedTicks, Policy, Record, after_end,
    timetable::{Timetable, just_before},
};
use crate::{
    schedule::{Schedule, WallTime},
    scheduler::Missed,
};

/// What a job does next.
///
/// `missed` are the ticks above the watermark that are given up. They are found again by every
/// question until the watermark is above them, so they are told of once if only that replica tells
/// which raised it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduler) enum Due {
    /// Run `tick`, which was due at `start`.
    Run {
        tick: WallTime,
        start: WallTime,
        /// The tick was claimed before, and its run broken off.
        again: bool,
        missed: Option<MissedTicks>,
    },
    /// Ask again at `start`, which is that of `tick`.
    Wait { tick: WallTime, start: WallTime, missed: Option<MissedTicks> },
    /// There is no other tick.
    Never { missed: Option<MissedTicks> },
}

/// What `job` does at `now`, where no run of it is going.
///
/// For a replica that is idle, and again under the job's lock, with the record that was read there.
pub(in crate::scheduler) fn due(
    schedule: &Schedule,
    job: &str,
    policy: &Policy,
    record: &Record,
    now: WallTime,
) -> Due {
    let times = Timetable { schedule, job };
    if let (true, Some(tick)) = (record.unfinished, record.tick) {
        return Due::Run { tick, start: times.start(tick), again: true, missed: None };
    }
    if schedule.is_after_end() {
        return after_end::due(times, record, now);
    }
    let floor = record.floor();
    let Some(newest) = times.newest_started(floor, now) else {
        // The clock may be behind the watermark.
        return wait(times, floor, None);
    };
    match choose(times, policy, record, newest, now) {
        Some(tick) => Due::Run {
            tick,
            start: times.start(tick),
            again: false,
            missed: times.given_up(floor, just_before(tick)),
        },
        None => wait(times, newest, times.given_up(floor, newest)),
    }
}

/// The pending tick that runs now, if any does.
fn choose(
    times: Timetable<'_>,
    policy: &Policy,
    record: &Record,
    newest: WallTime,
    now: WallTime,
) -> Option<WallTime> {
    let start = times.start(newest);
    let horizon = policy.horizon(now);
    let on_time = policy.is_on_time(start, record.last_end, now);
    // Older ones started earlier: where the newest is not made up for, none is.
    let made_up_for = on_time || start >= horizon;
    match policy.missed {
        Missed::Skip | Missed::RunAll { at_most: 0 } => on_time.then_some(newest),
        Missed::RunLatest => made_up_for.then_some(newest),
        Missed::RunAll { at_most } => {
            made_up_for.then(|| times.oldest(record.floor(), horizon, newest, at_most))
        }
    }
}

/// The tick whose runs were broken off, and that is not repeated any more.
pub(in crate::scheduler) fn given_up(
    schedule: &Schedule,
    job: &str,
    policy: &Policy,
    record: &Record,
    now: WallTime,
) -> Option<WallTime> {
    let tick = record.tick.filter(|_| record.unfinished)?;
    let is_late = Timetable { schedule, job }.start(tick) < policy.horizon(now);
    (is_late || record.attempt >= policy.max_attempts).then_some(tick)
}

fn wait(times: Timetable<'_>, after: WallTime, missed: Option<MissedTicks>) -> Due {
    match times.next(after) {
        Some(tick) => Due::Wait { tick, start: times.start(tick), missed },
        None => Due::Never { missed },
    }
}
