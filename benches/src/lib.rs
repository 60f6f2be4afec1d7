//! Measures how fast locks are acquired and released, compared with rslock and with a lower bound.
//!
//! The bench targets `locks` and `costs` measure, and print one sample per line; the program
//! `report` makes tables of them. `scripts/bench` runs all of them; see `README.md`.

mod child;
mod contestants;
mod counter;
mod cycles;
mod floor;
mod forwarder;
mod keeper;
mod options;
mod processor;
mod report;
mod role;
mod samples;
mod scenarios;
mod servers;
mod service;
mod spread;
mod stopwatch;
#[path = "../../tests/support/mod.rs"]
mod support;
mod waits;

use std::thread;

pub use counter::Counter;

use options::Options;
use scenarios::{
    allocations, contended, distance, distinct, faults, handover, layer, linger, listing, many,
    processes, reader_costs, readers, reconnect, slots, waiters,
};
use servers::Servers;

type Measure = fn(&Servers, &Options);

/// Measures the times over real servers, and prints the samples. The arguments are the program's.
///
/// # Panics
///
/// If servers don't start, or a lock is not granted that should be.
pub fn locks() {
    match role::of_this_process() {
        Some((role, orders)) if role == child::ROLE => return child::obey(&orders),
        Some((role, orders)) if role == keeper::ROLE => return keeper::obey(&orders),
        Some((role, orders)) if role == service::ROLE => return service::obey(&orders),
        Some((role, orders)) if role == reconnect::ROLE => return reconnect::obey(&orders),
        Some((role, _)) => panic!("no such role: {role}"),
        None => {}
    }
    let options = Options::from_args();
    let all = [
        ("distance", distance::measure as Measure),
        ("distinct", distinct::measure),
        ("faults", faults::measure),
        // Measured late, because a new set of servers has little room for tokens in its first
        // minute.
        ("contended", contended::measure),
        ("processes", processes::measure),
        ("slots", slots::measure),
        ("readers", readers::measure),
        ("handover", handover::measure),
        ("waiters", waiters::measure),
        ("listing", listing::measure),
        ("linger", linger::measure),
        ("service", scenarios::service::measure),
        ("many", many::measure),
        ("reconnect", reconnect::measure),
    ];
    if !all.iter().any(|(name, _)| options.wants(name)) {
        return;
    }
    let load = load();
    let [servers] = Servers::start([5]);
    let cores = thread::available_parallelism().map_or(0, usize::from);
    samples::emit(
        samples::MACHINE,
        samples::MACHINE,
        samples::CORES,
        f64::from(u32::try_from(cores).unwrap_or(u32::MAX)),
    );
    samples::note(&format!(
        "{cores} cores{load}, servers on the same machine ({}), {} rounds, {:?} a measurement",
        servers.version(),
        options.rounds,
        options.time,
    ));
    for (name, measure) in all.iter().filter(|(name, _)| options.wants(name)) {
        eprintln!("{name}");
        measure(&servers, &options);
    }
}

/// Measures the allocations of requests and locks, and the time of a request without a network, and
/// prints the samples. `counter` counts all allocations.
///
/// # Panics
///
/// If servers don't start, or a lock is not granted that should be.
pub fn costs(counter: &Counter) {
    let options = Options::from_args();
    let all = [
        ("layer", layer::measure as fn(&Counter, &Options)),
        ("readers", reader_costs::measure),
        ("allocations", allocations::measure),
    ];
    for (name, measure) in all {
        if options.wants(name) {
            eprintln!("{name}");
            measure(counter, &options);
        }
    }
}

pub use report::report;

/// Returns the load of the machine before the start, if the system reports it.
fn load() -> String {
    let averages = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = averages.split(' ').next().filter(|load| !load.is_empty());
    first.map(|load| format!(" (load {load} before the start)")).unwrap_or_default()
}
