//! The command `redlock`: runs programs under a lock, and shows and steers what a fleet locks.

mod adopt;
mod args;
mod bench;
mod client;
mod doctor;
mod exit;
mod glob;
mod jobs;
mod locks;
mod logging;
mod lower_max_ttl;
mod once;
mod options;
mod output;
mod pages;
mod run;
mod serve;
mod settings;
mod signals;
mod status;

use std::process::ExitCode;

use clap::CommandFactory;
use tracing_subscriber::filter::LevelFilter;

use crate::{
    args::{Args, Command},
    exit::Failure,
};

fn main() -> ExitCode {
    // The processes that `run` starts need neither options nor a log.
    if let Some(code) = run::helper() {
        return code;
    }
    let args = match args::parse() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let _log = logging::start(level(&args));
    // One thread, which outlives every child: a child ends with the thread that started it.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::system(format!("no runtime: {error}")).report(),
    };
    let ended = runtime.block_on(execute(args));
    // A blocked read of the standard input must not keep the program.
    runtime.shutdown_background();
    ended.unwrap_or_else(|failure| failure.report())
}

/// Returns the level of the log: warnings while a program runs under a lock, actions of users of web pages,
/// and more with `-v`.
fn level(args: &Args) -> LevelFilter {
    match (args.shared.verbose, &args.command) {
        (0, Command::Run(args)) if args.quiet => LevelFilter::ERROR,
        (0, Command::Run(_)) => LevelFilter::WARN,
        (0, Command::Serve(_)) | (1, _) => LevelFilter::INFO,
        (0, _) => LevelFilter::OFF,
        (2.., _) => LevelFilter::DEBUG,
    }
}

async fn execute(Args { shared, command }: Args) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(args) => return run::run(&shared, &args).await,
        Command::Status(args) => return status::status(&shared, &args).await,
        Command::Break(args) => return locks::take_away(&shared, &args).await,
        Command::Doctor(args) => return doctor::doctor(&shared, &args).await,
        Command::Adopt(args) => return adopt::adopt(&shared, &args).await,
        Command::Bench(args) => return bench::bench(&shared, &args).await,
        Command::Serve(args) => serve::serve(&shared, &args).await,
        Command::Ls(args) => locks::ls(&shared, &args).await,
        Command::Inspect(args) => locks::inspect(&shared, &args).await,
        Command::Jobs(args) => jobs::jobs(&shared, &args).await,
        Command::Once(args) => once::once(&shared, &args).await,
        Command::LowerMaxTtl => lower_max_ttl::lower(&shared).await,
        Command::Completions(args) => pages::completions(&args, Args::command()),
        Command::Man(args) => pages::man(&args, Args::command()),
    }
    .map(|()| ExitCode::SUCCESS)
}
