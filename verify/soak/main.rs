//! Locks under faults: five real servers that are killed, emptied, frozen and whose clocks jump,
//! and processes that contend for a few names all the while. See `docs/soak.md`.

mod ask;
mod checker;
mod faketime;
mod fault;
mod guards;
mod history;
mod injector;
mod launch;
mod ledger;
mod options;
mod plan;
mod random;
mod report;
mod run;
mod server;
mod stop;
mod support;
mod trial;
mod worker;
mod workers;

use std::env;
use std::process::ExitCode;

use faketime::Faketime;
use options::Options;
use report::Report;
use stop::Stop;
use worker::{WORKER, WorkerOptions};

fn main() -> ExitCode {
    let mut args = env::args().skip(1).peekable();
    if args.next_if(|first| first == WORKER).is_some() {
        let options = WorkerOptions::parse(args).ok_or("not a worker's arguments".to_owned());
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
    let faketime = if options.left_out.clock_faults { None } else { Some(Faketime::find()?) };
    let program = launch::program()?;
    let stop = Stop::listen()?;
    println!("seed {} (repeat with --seed {0}), {program}", options.seed);
    let mut report = Report::default();
    for trial in options.trials() {
        report.add(trial, run::run(trial, options, faketime.as_ref(), &stop)?);
        if stop.is_asked_for() {
            break;
        }
    }
    println!("\n{report}");
    if stop.is_asked_for() {
        return Ok(fail("interrupted: nothing is judged", 130));
    }
    let problems = report.problems();
    if problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(fail(&problems.join("\nsoak: "), 1))
}

fn fail(problem: &str, code: u8) -> ExitCode {
    eprintln!("soak: {problem}");
    ExitCode::from(code)
}
