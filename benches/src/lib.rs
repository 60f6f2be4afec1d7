//! How fast locks are taken and given back, beside rslock and beside what the servers allow.
//!
//! The bench targets `locks` and `costs` measure, and print a sample in each line; the program
//! `report` makes tables and plots of them. `scripts/bench` does all of it; see `README.md`.

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
#[path = "../../tests/support/mod.rs"]
mod support;
mod waits;

use std::thread;

pub use counter::Counter;

use options::Options;
use scenarios::{
    allocations, contended, distance, distinct, faults, handover, layer, linger, listing, many,
    processes, waiters,
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
    match role::of_this_process() {
        Some((role, orders)) if role == keeper::ROLE => return keeper::obey(&orders),
        Some((role, orders)) if role == service::ROLE => return service::obey(&orders),
        Some((role, _)) => panic!("no such role: {role}"),
        None => {}
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
        ("linger", linger::measure),
        ("service", scenarios::service::measure),
        ("many", many::measure),
    ];
    if !all.iter().any(|(name, _)| options.wants(name)) {
        return;
    }
    let load = load();
    let [servers] = Servers::start([5]);
    let cores = thread::available_parallelism().map_or(0, usize::from);
    samples::tell(
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
