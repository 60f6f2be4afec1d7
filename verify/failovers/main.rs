//! Failovers under load: locks over a node behind Sentinels, one in a Cluster and a fixed server,
//! while the masters are killed, stopped and replaced. See `verify/failovers/README.md`.

#[path = "../../tests/support/hand_clock.rs"]
mod hand_clock;
mod observations;
mod options;
mod outcome;
mod plan;
mod report;
mod run;
mod site;
mod worker;

use std::env;
use std::process::ExitCode;

use options::Options;
use report::Report;
use tower_redlock_verify::launch;
use tower_redlock_verify::stop::Stop;
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
        Ok(Some(options)) => failovers(&options).unwrap_or_else(|problem| fail(&problem, 1)),
        Err(problem) => fail(&format!("{problem}\n{}", options::USAGE), 2),
    }
}

fn failovers(options: &Options) -> Result<ExitCode, String> {
    let program = launch::program()?;
    let stop = Stop::listen("failovers")?;
    println!("seed {} (repeat with --seed {0}), {program}", options.seed);
    let outcome = run::run(options, &stop)?;
    println!("\n{}", Report(&outcome));
    if outcome.is_interrupted {
        return Ok(fail("interrupted: no verdict", 130));
    }
    let problems = outcome.problems();
    if problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(fail(&problems.join("\nfailovers: "), 1))
}

fn fail(problem: &str, code: u8) -> ExitCode {
    eprintln!("failovers: {problem}");
    ExitCode::from(code)
}
