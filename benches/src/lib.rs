//! How fast locks are taken and given back, beside rslock and beside what the servers allow.
//!
//! The bench targets `locks` and `costs` measure, and print a sample in each line; the program
//! `report` makes tables and plots of them. `scripts/bench` does all of it; see `README.md`.

mod child;
mod contestants;
mod counter;
mod cycles;
mod distance;
mod floor;
mod options;
mod report;
mod samples;
mod scenarios;
mod servers;
mod spread;
#[path = "../../tests/support/mod.rs"]
mod support;
mod waits;

use std::thread;

pub use counter::Counter;

use options::Options;
use scenarios::{
    allocations, contended, distance, distinct, faults, handover, layer, listing, processes,
    waiters,
};
use servers::Servers;

type Measure = fn(&Servers, &Options);

/// Measures all that has to do with time over real servers, and prints the samples. The arguments
/// are those of the program.
///
/// # Panics
///
/// Where servers don't start, or a lock is not granted that must be.
pub fn locks() {
    if let Some(orders) = child::orders() {
        return child::obey(&orders);
    }
    let options = Options::from_args();
    let all = [
        ("distance", distance::measure as Measure),
        ("distinct", distinct::measure),
        ("faults", faults::measure),
        // Late, because a set of servers that is new has little room for tokens in its first minute.
        ("contended", contended::measure),
        ("processes", processes::measure),
        ("handover", handover::measure),
        ("waiters", waiters::measure),
        ("listing", listing::measure),
    ];
    if !all.iter().any(|(name, _)| options.wants(name)) {
        return;
    }
    let load = load();
    let [servers] = Servers::start([5]);
    samples::note(&format!(
        "{} cores{load}, servers on the same machine ({}), {} rounds, {:?} a measurement",
        thread::available_parallelism().map_or(0, usize::from),
        servers.version(),
        options.rounds,
        options.time,
    ));
    for (name, measure) in all.iter().filter(|(name, _)| options.wants(name)) {
        eprintln!("{name}");
        measure(&servers, &options);
    }
}

/// Measures what requests and locks allocate, and how long a request takes without any network, and
/// prints the samples. `counter` counts all allocations.
///
/// # Panics
///
/// Where servers don't start, or a lock is not granted that must be.
pub fn costs(counter: &Counter) {
    let options = Options::from_args();
    for (name, measure) in
        [("layer", layer::measure as fn(&Counter, &Options)), ("allocations", allocations::measure)]
    {
        if options.wants(name) {
            eprintln!("{name}");
            measure(counter, &options);
        }
    }
}

pub use report::report;

/// What else the machine is doing before we begin, where the system tells.
fn load() -> String {
    let averages = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = averages.split(' ').next().filter(|load| !load.is_empty());
    first.map(|load| format!(" (load {load} before the start)")).unwrap_or_default()
}
