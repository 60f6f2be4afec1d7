//! Locks under faults: five real servers that are killed, emptied, frozen and whose clocks jump,
//! and processes that contend for a few names all the while. See `docs/soak.md`.

mod fault;
mod guards;
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
use std::thread;

use options::Options;
use report::{Outcome, Report};
use tower_redlock_verify::stop::Stop;
use tower_redlock_verify::support::{program, server_clock::Clock};
use trial::Trial;
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
        return Ok(fail("interrupted: nothing is judged", 130));
    }
    let problems = report.problems();
    if problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(fail(&problems.join("\nsoak: "), 1))
}

fn run_all(options: &Options, stop: &Stop) -> Result<Report, String> {
    let mut report = Report::default();
    thread::scope(|scope| {
        let tracks = options.tracks().iter();
        let tracks = tracks.map(|track| scope.spawn(move || run_track(track, options, stop)));
        let tracks: Vec<_> = tracks.collect();
        let mut ended = tracks.into_iter().map(|track| track.join().expect("it does not panic"));
        ended.try_for_each(|outcomes| {
            outcomes?.into_iter().for_each(|(trial, outcome)| report.add(trial, outcome));
            Ok(())
        })
    })
    .map(|()| report)
}

/// Ends the other tracks, too, where it fails.
fn run_track<'a>(
    track: &'a [Trial],
    options: &Options,
    stop: &Stop,
) -> Result<Vec<(&'a Trial, Outcome)>, String> {
    let mut outcomes = Vec::new();
    for trial in track.iter().take_while(|_| !stop.is_asked_for()) {
        let outcome = run::run(trial, options, stop);
        outcomes.push((trial, outcome.inspect_err(|_| stop.ask())?));
    }
    Ok(outcomes)
}

fn fail(problem: &str, code: u8) -> ExitCode {
    eprintln!("soak: {problem}");
    ExitCode::from(code)
}
