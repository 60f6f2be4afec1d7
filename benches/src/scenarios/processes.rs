//! Four processes that want the same name: who gets it, how often, and how long they wait.

use std::time::Duration;

use super::contended::KINDS;
use crate::{
    child::{Part, Turn, run_all},
    options::Options,
    servers::Servers,
    waits::{Wait, Waits},
};

/// Of each process.
pub(crate) const TASKS: [usize; 2] = [1, 4];
const PROCESSES: usize = 4;

pub(crate) fn case(tasks: usize) -> String {
    format!("{PROCESSES} processes × {tasks}, one name")
}

pub(crate) fn measure(servers: &Servers, options: &Options) {
    for tasks in TASKS {
        options.rounds(&KINDS, |kind| {
            let part = Part { kind, tasks, hold: Duration::ZERO, time: options.time };
            let turns = run_all(servers, part, PROCESSES);
            let wait = |turn: &Turn| Wait {
                time: Duration::from_nanos(turn.granted - turn.asked),
                is_in_time: u128::from(turn.granted) < options.time.as_nanos(),
            };
            let waits = turns.iter().map(|turns| turns.iter().map(wait).collect());
            let waits = Waits::of(&waits.collect::<Vec<_>>(), options.time);
            waits.tell(&case(tasks), kind.name());
        });
    }
}
