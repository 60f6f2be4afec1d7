//! A matrix of faults over real servers: each fault strikes in each phase of a lock; or random
//! faults, one after the other. See `verify/faults/README.md`.

mod cell;
mod client;
mod fault;
mod fixture;
mod hosts;
mod options;
mod outcome;
mod proxy;
mod random;
mod recovery;
mod relay;
mod report;
mod run;
mod strike;

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use tokio::runtime::{Builder, Handle};
use tower_redlock_verify::program;
use tower_redlock_verify::stop::Stop;
use tower_redlock_verify::support::program::program;

use options::{Options, RandomOptions, Request};
use report::Report;

fn main() -> ExitCode {
    program::main("faults", options::USAGE, client::connect, options::parse, faults)
}

fn faults(request: &Request, stop: &Stop) -> Result<Vec<String>, String> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    match request {
        Request::List => {
            print!("{}", report::list());
            Ok(Vec::new())
        }
        Request::Matrix(options) => matrix(options, stop, runtime.handle()),
        Request::Random(options) => random(options, stop, runtime.handle()),
    }
}

fn matrix(options: &Options, stop: &Stop, runtime: &Handle) -> Result<Vec<String>, String> {
    let program = program()?;
    let started = Instant::now();
    let report = run_all(options, stop, runtime);
    if options.markdown {
        println!("{}", report.markdown());
    }
    eprint!("{program}, {} s, {} at a time\n{report}", started.elapsed().as_secs(), options.jobs);
    Ok(report.problems())
}

fn random(options: &RandomOptions, stop: &Stop, runtime: &Handle) -> Result<Vec<String>, String> {
    println!("seed {} (repeat with --seed {0}), {}", options.seed, program()?);
    let mut problems = Vec::new();
    for &client in &options.clients {
        let outcome = random::run(client, options, stop, runtime)?;
        print!("{outcome}");
        problems.extend(outcome.problems());
    }
    Ok(problems)
}

fn run_all(options: &Options, stop: &Stop, runtime: &Handle) -> Report {
    let cells: VecDeque<_> = options.cells().into_iter().enumerate().collect();
    let (cells, report) = (Mutex::new(cells), Mutex::new(Report::default()));
    let next = || cells.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some((number, cell)) = next().filter(|_| !stop.is_asked_for()) {
                    let outcome = run::run(cell, runtime);
                    match &outcome {
                        Ok(outcome) => {
                            eprintln!("{cell}: {outcome}");
                            outcome.examples().iter().for_each(|example| eprintln!("  {example}"));
                        }
                        Err(problem) => eprintln!("{cell}: not carried out: {problem}"),
                    }
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    report.add(number, cell, outcome);
                }
            });
        }
    });
    report.into_inner().unwrap_or_else(PoisonError::into_inner)
}
