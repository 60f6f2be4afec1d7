//! Failovers under load: locks over a node behind Sentinels, one in a Cluster and a fixed server,
//! while the masters are killed, stopped and replaced. See `verify/failovers/README.md`.

mod client;
mod options;
mod outcome;
mod plan;
mod report;
mod run;
mod servers;

use std::process::ExitCode;

use options::Options;
use report::Report;
use tower_redlock_verify::program;
use tower_redlock_verify::stop::Stop;
use tower_redlock_verify::support::program::program;

fn main() -> ExitCode {
    program::main("failovers", options::USAGE, client::connect, Options::parse, failovers)
}

fn failovers(options: &Options, stop: &Stop) -> Result<Vec<String>, String> {
    println!("seed {} (repeat with --seed {0}), {}", options.seed, program()?);
    let outcome = run::run(options, stop)?;
    println!("\n{}", Report(&outcome));
    Ok(outcome.problems())
}
