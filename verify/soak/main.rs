//! Locks under faults: five real servers that are killed, emptied, frozen and whose clocks jump,
//! while processes contend for a few names. See `verify/soak/README.md`.

mod fault;
#[path = "../../tests/support/hand_clock.rs"]
mod hand_clock;
mod injector;
mod ledger;
mod options;
mod plan;
mod report;
mod run;
mod server;
mod trial;
mod worker;

use std::env;
use std::process::ExitCode;

use options::Options;
use report::Report;
use tower_redlock_verify::stop::Stop;
use tower_redlock_verify::support::{program, server_clock::Clock};
use worker::{WORKER, WorkerOptions};

fn main() -> ExitCode {
    let mut args = env::args().skip(1).peekable();
    if args.next_if(|first| first == WORKER).is_some() {
        let options = WorkerOptions::parse(args).ok_or("invalid arguments of a worker".to_owned());
        return match options.and_then(|options| worker::run(&options)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => fail(&problem, 1),
        };
    }
    match Options::parse(args) {
        Ok(None) => {
            println!("{}", options::USAGE);
            ExitCode::SUCCESS
        }
        Ok(Some(options)) => soak(&options).unwrap_or_else(|problem| fail(&problem, 1)),
        Err(problem) => fail(&format!("{problem}\n{}", options::USAGE), 2),
    }
}

fn soak(options: &Options) -> Result<ExitCode, String> {
    if !options.left_out.clock_faults {
        Clock::check().map_err(|missing| {
            format!("{missing}\nor leave these faults out: --without clock-faults")
        })?;
    }
    let program = program::program()?;
    let stop = Stop::listen("soak")?;
    println!("seed {} (repeat with --seed {0}), {program}", options.seed);
    let report = run_all(options, &stop)?;
    println!("\n{report}");
    if stop.is_asked_for() {
        return Ok(fail("interrupted: no verdict", 130));
    }
    let problems = report.problems();
    if problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(fail(&problems.join("\nsoak: "), 1))
}

fn run_all(options: &Options, stop: &Stop) -> Result<Report, String> {
    let mut report = Report::default();
    for trial in options.trials.iter().take_while(|_| !stop.is_asked_for()) {
        report.add(trial, run::run(trial, options, stop)?);
    }
    Ok(report)
}

fn fail(problem: &str, code: u8) -> ExitCode {
    eprintln!("soak: {problem}");
    ExitCode::from(code)
}
