//! | what | where |
//! |---|---|
//! | which tick runs, rule by rule | `cases` |
//! | the run before took longer | `overlapped` |
//! | schedules that count from the last end | `after_end` |
//! | every answer against a list of all ticks, over random schedules | `model` |
//! | the number of steps after a long outage | `steps` |
//!
//! `PROPTEST_CASES=100000 cargo test -p redlock-core policy` looks longer.

mod after_end;
mod cases;
mod model;
mod overlapped;
mod steps;

use std::time::Duration;

use super::{Due, JobRecord, Missed, MissedTicks, Overlap, Policy, due};
use crate::schedule::{Schedule, WallTime};

const JOB: &str = "job";

const fn at(second: u64) -> WallTime {
    WallTime::from_millis(second * 1_000)
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A tick every ten seconds, on time for two.
fn every_ten() -> (Schedule, Policy) {
    (Schedule::every(seconds(10)), Policy { start_within: seconds(2), ..Policy::default() })
}

fn policy(missed: Missed, overlap: Overlap) -> Policy {
    Policy { missed, overlap, start_within: seconds(2), ..Policy::default() }
}

/// Registered at the epoch, never run.
const NEW: JobRecord = JobRecord::new(WallTime::ZERO);

/// Returns the record after the run of the tick of this second, which ended in the same second.
fn ran(tick: u64) -> JobRecord {
    JobRecord { tick: Some(at(tick)), last_end: Some(at(tick)), ..NEW }
}

/// Returns the record after the run of the tick of this second, which ended at `end`.
fn ran_until(tick: u64, end: u64) -> JobRecord {
    JobRecord { last_end: Some(at(end)), ..ran(tick) }
}

fn run(tick: u64, missed: Option<MissedTicks>) -> Due {
    Due::Run { tick: at(tick), start: at(tick), again: false, missed }
}

fn wait(tick: u64, missed: Option<MissedTicks>) -> Due {
    Due::Wait { tick: at(tick), start: at(tick), missed }
}

#[allow(clippy::unnecessary_wraps, reason = "the expected value of a comparison")]
fn missed(count: u64, first: u64, last: u64) -> Option<MissedTicks> {
    Some(MissedTicks { count, at_least: false, first: at(first), last: at(last) })
}

/// Returns the ticks that run at this moment, one after the other, each in no time, and the ticks
/// that are given up.
fn drain(
    schedule: &Schedule,
    policy: &Policy,
    mut record: JobRecord,
    now: WallTime,
) -> (Vec<WallTime>, Vec<MissedTicks>) {
    let (mut runs, mut given_up) = (Vec::new(), Vec::new());
    loop {
        assert!(runs.len() <= 2_000, "does not end: {runs:?}");
        match due(schedule, JOB, policy, &record, now) {
            Due::Run { tick, missed, .. } => {
                given_up.extend(missed);
                runs.push(tick);
                record = JobRecord { tick: Some(tick), unfinished: false, ..record };
            }
            Due::Wait { missed, .. } | Due::Never { missed } => {
                given_up.extend(missed);
                return (runs, given_up);
            }
        }
    }
}
