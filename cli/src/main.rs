//! The command `redlock`: runs programs under a lock, and shows and steers what a fleet locks.

mod args;
mod bench;
mod doctor;
mod exit;
mod glob;
mod jobs;
mod locks;
mod logging;
mod once;
mod output;
mod pages;
mod run;
mod serve;
mod sets;
mod settings;
mod settle;
mod signals;
mod status;

use std::process::ExitCode;

use crate::{
    args::{Args, Command},
    exit::Failure,
};

fn main() -> ExitCode {
    // Processes that `run` starts: they only have to begin soon.
    if let Some(code) = run::helper() {
        return code;
    }
    let args = match args::parse() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let _log = logging::start(&args);
    match execute(args) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn execute(args: Args) -> Result<ExitCode, Failure> {
    let Args { shared, command } = args;
    // One thread, which outlives every child: a child ends with the thread that started it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system(format!("no runtime: {error}")))?;
    let code = runtime.block_on(async {
        match command {
            Command::Run(args) => run::run(&shared, &args).await,
            Command::Status(args) => status::status(&shared, &args).await,
            Command::Serve(args) => serve::serve(&shared, &args).await,
            Command::Ls(args) => locks::ls(&shared, &args).await,
            Command::Inspect(args) => locks::inspect(&shared, &args).await,
            Command::Break(args) => locks::take_away(&shared, &args).await,
            Command::Jobs(args) => jobs::jobs(&shared, &args).await,
            Command::Once(args) => once::once(&shared, &args).await,
            Command::Doctor(args) => doctor::run(&shared, &args).await,
            Command::Adopt(args) => sets::adopt(&shared, &args).await,
            Command::LowerMaxTtl => sets::lower(&shared).await,
            Command::Bench(args) => bench::bench(&shared, &args).await,
            Command::Completions(args) => pages::completions(&args),
            Command::Man(args) => pages::man(&args),
        }
    });
    // A blocked read of the standard input must not keep the program.
    runtime.shutdown_background();
    code
}
