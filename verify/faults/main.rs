//! A matrix of faults over real servers: each fault strikes in each phase of a lock. See
//! `verify/faults/README.md`.

mod cell;
mod control;
mod fault;
mod ledger;
mod message;
mod options;
mod outcome;
mod proxy;
mod relay;
mod report;
mod resource;
mod run;
mod server;
mod site;
mod strike;
mod worker;

use std::collections::VecDeque;
use std::env;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use tokio::runtime::{Builder, Handle};
use tower_redlock_verify::stop::Stop;
use tower_redlock_verify::support::program;

use options::{Options, Request};
use report::Report;
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
        Ok(Request::Help) => {
            println!("{}", options::USAGE);
            ExitCode::SUCCESS
        }
        Ok(Request::List) => {
            print!("{}", report::list());
            ExitCode::SUCCESS
        }
        Ok(Request::Run(options)) => matrix(&options).unwrap_or_else(|problem| fail(&problem, 1)),
        Err(problem) => fail(&format!("{problem}\n{}", options::USAGE), 2),
    }
}

fn matrix(options: &Options) -> Result<ExitCode, String> {
    let program = program::program()?;
    let stop = Stop::listen("faults")?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let started = Instant::now();
    let report = run_all(options, &stop, runtime.handle());
    if options.markdown {
        println!("{}", report.markdown());
    }
    eprint!("{program}, {} s, {} at a time\n{report}", started.elapsed().as_secs(), options.jobs);
    if stop.is_asked_for() {
        return Ok(fail("interrupted: no verdict", 130));
    }
    let problems = report.problems();
    if problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(fail(&problems.join("\nfaults: "), 1))
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

fn fail(problem: &str, code: u8) -> ExitCode {
    eprintln!("faults: {problem}");
    ExitCode::from(code)
}
