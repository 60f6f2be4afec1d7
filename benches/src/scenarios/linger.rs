//! The same names repeatedly, with and without idle locks that stay with the process.

use std::{thread, time::Duration};

use crate::{
    contestants::Kind,
    cycles,
    options::{Options, rotated},
    report::format::time,
    servers::Servers,
};

pub(crate) const KINDS: [Kind; 4] = [Kind::Lingering, Kind::Ours, Kind::Rslock, Kind::Floor];

const TASKS: [usize; 2] = [1, 16];
const ROUND_TRIPS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(2)];

/// Each case, its round trip and its number of tasks.
pub(crate) fn cases() -> impl Iterator<Item = (String, Duration, usize)> {
    let case = |round_trip: Duration, tasks| {
        let away = match round_trip {
            Duration::ZERO => "servers on this machine".into(),
            _ => format!("round trip {}", time(round_trip.as_secs_f64())),
        };
        (format!("{} with a name each, {away}", super::tasks(tasks)), round_trip, tasks)
    };
    ROUND_TRIPS.into_iter().flat_map(move |trip| TASKS.map(|tasks| case(trip, tasks)))
}

/// Time after which the clocks of a new set of servers have reached its tokens, which start a
/// minute ahead. Before that, a lease has few tokens.
const YOUTH: Duration = Duration::from_secs(65);

pub(crate) fn measure(_: &Servers, options: &Options) {
    let sets = ROUND_TRIPS.map(|round_trip| match round_trip {
        Duration::ZERO => Servers::start([5]).into_iter().next().expect("one set"),
        _ => Servers::start_away(round_trip),
    });
    thread::sleep(YOUTH);
    for round in 0..options.rounds {
        for (case, round_trip, tasks) in cases() {
            let set = ROUND_TRIPS.iter().position(|other| *other == round_trip);
            let servers = &sets[set.expect("a set for each round trip")];
            for kind in rotated(&KINDS, round) {
                let outcome = cycles::measure(servers, kind, tasks, options.time, || ());
                outcome.emit(&case, kind);
            }
        }
    }
}
