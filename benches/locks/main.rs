//! How fast a lock is taken and given back, beside rslock and beside what the servers allow.
//!
//! `cargo bench -p tower-redlock-benches [-- --rounds N --seconds S --await-release | --contended]`; see `benches/README.md`.

mod contended;
mod contestants;
mod options;
mod report;
mod scenarios;
mod servers;
mod spread;
#[path = "../../tests/support/mod.rs"]
mod support;

use contestants::Kind;
use options::Options;
use report::Report;
use scenarios::{Condition, Load, measure};
use servers::Servers;

fn main() {
    let options = Options::parse(std::env::args().skip(1)).unwrap_or_else(|problem| {
        eprintln!("{problem}\n{}", options::USAGE);
        std::process::exit(2);
    });
    let servers = Servers::start();
    if options.contended {
        return contended::report(&servers, &options);
    }
    let mut report = Report::new(&options, &servers);
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        for load in Load::ALL {
            // Who comes first may find the machine cooler, or busier: everyone does at times.
            let mut order = Kind::ALL;
            order.rotate_left(round % Kind::ALL.len());
            for kind in order {
                // Side by side, because the one is told as a share of the other.
                for condition in Condition::ALL {
                    let result = measure(&servers, kind, load, condition, &options);
                    eprintln!("  {}, {}, {}: {result}", load.name(), condition.name(), kind.name());
                    report.add(kind, load, condition, result);
                }
            }
        }
    }
    println!("{report}");
}
