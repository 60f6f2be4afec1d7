//! Examines the servers of a lock set for its operator: which of them vote, why the others don't, what
//! to do about it, and which locks are held.
//!
//! ```text
//! export REDLOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
//! cargo build --release --example doctor --features config     as target/release/examples/doctor
//! doctor                           examine, and give one verdict
//! doctor --wait                    until all nodes vote
//! doctor --wait 10.0.0.1:6379      until that server votes again
//! doctor --resource invoice:42     who holds it
//! doctor --help                    everything else
//! ```
//!
//! Read first: `diagnose.rs` (the state of the nodes, and advice) and `holder.rs` (the holder of a lock,
//! and taking the lock away). The rest reads settings, prints and waits.

mod args;
mod changes;
mod check;
mod confirm;
mod diagnose;
mod holder;
mod json;
mod setup;
mod text;
mod wait;

use std::{error::Error, process::ExitCode};

use tower_redlock::{Redlock, node::EmbeddedNodes};

use crate::{
    args::{Args, Command, Task},
    diagnose::{diagnose, exit_code},
    setup::{Settings, Setup},
};

/// Exit code for bad usage, and for errors of this program.
const USAGE_ERROR: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let args = match args::parse(std::env::args().skip(1)) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Help) => {
            print!("{}", args::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("doctor: {error}\n--help shows the usage");
            return ExitCode::from(USAGE_ERROR);
        }
    };
    match run(&args).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("doctor: {error}");
            ExitCode::from(USAGE_ERROR)
        }
    }
}

async fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let setup = Setup::new(&args.settings)?;
    if args.task == Task::Check {
        return check::check(setup, args).await;
    }
    let redlock = setup.build(&EmbeddedNodes::new(5))?;
    let settings = setup.settings();
    match &args.task {
        Task::Resource(name) => holder::show(&redlock, name, args).await,
        Task::Break(name) => holder::take_away(&redlock, name, args).await,
        Task::Adopt => changes::adopt(&setup, &redlock, args).await,
        Task::Wait(until) => {
            let timeout = args.timeout.unwrap_or_else(|| wait::default_timeout(&settings));
            wait::wait(&redlock, *until, timeout).await;
            Ok(examine(&redlock, &settings, args).await)
        }
        Task::WaitFor(node) => wait::wait_for(&redlock, node, &settings, args).await,
        Task::LowerMaxTtl => changes::lower(&redlock, &settings, args).await,
        Task::Examine | Task::Check => Ok(examine(&redlock, &settings, args).await),
    }
}

/// Examines the set, and prints the report.
async fn examine(redlock: &Redlock, settings: &Settings, args: &Args) -> ExitCode {
    let diagnosis = diagnose(redlock, args.probe).await;
    if args.json {
        println!("{:#}", json::report(&diagnosis, settings));
    } else {
        print!("{}", text::report(&diagnosis));
    }
    exit_code(diagnosis.verdict()).into()
}
