//! Four processes that contend for one name: their grants and their waits.

use std::time::Duration;

use super::contended::KINDS;
use crate::{
    child::{self, Locks, Part, run_all},
    contestants::Kind,
    options::Options,
    report::format::significant,
    samples::emit,
    servers::Servers,
};

/// Numbers of tasks in each process.
pub(crate) const TASKS: [usize; 2] = [1, 4];
const PROCESSES: usize = 4;

/// Duration of a hold in the last case.
const HOLD: Duration = Duration::from_millis(2);
/// The longest wait, as a multiple of the mean wait in a queue that serves all tasks in turn.
pub(crate) const LONGEST_TO_FAIR: &str = "longest wait to the mean of a fair line";

/// Number of acquires that the servers ran for each grant and server: 1 if none is refused.
pub(crate) const ACQUIRES: &str = "acquires for a grant";

pub(crate) fn case(tasks: usize) -> String {
    format!("{PROCESSES} processes × {tasks}, one name")
}

pub(crate) fn case_held(tasks: usize) -> String {
    format!("{}, held for {} ms", case(tasks), HOLD.as_millis())
}

pub(crate) fn measure(servers: &Servers, options: &Options) {
    let [few, many] = TASKS;
    let cases = [
        (case(few), few, Duration::ZERO),
        (case(many), many, Duration::ZERO),
        (case_held(many), many, HOLD),
    ];
    for (case, tasks, hold) in cases {
        options.rounds(&KINDS, |kind| {
            let part = Part { kind, tasks, locks: Locks::Names(1), hold, time: options.time };
            // An acquire of one name reads its fence with ZSCORE, in the script that contended names need.
            let before = servers.calls("zscore");
            let turns = run_all(servers, part, PROCESSES);
            let acquires = servers.calls("zscore") - before;
            let waits = child::waits(&turns, options.time);
            waits.emit(&case, kind.name());
            let others = u32::try_from(PROCESSES * tasks - 1).expect("a few");
            emit(&case, kind.name(), LONGEST_TO_FAIR, waits.longest_to_fair(others));
            if kind == Kind::Ours {
                let each = acquires / child::count(&turns) / servers.count();
                emit(&case, kind.name(), ACQUIRES, each);
                eprintln!("    {} acquires for a grant", significant(each));
            }
        });
    }
}
