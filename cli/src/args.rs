//! The command line: the options of every command, and the command.

use std::{process::ExitCode, sync::LazyLock};

use clap::{
    Parser, Subcommand,
    error::{ContextKind, ContextValue},
};
use tower_redlock::schedule::zone_database_version;

use crate::{
    adopt::AdoptArgs,
    bench::BenchArgs,
    doctor::DoctorArgs,
    exit,
    jobs::JobsArgs,
    locks::{BreakArgs, InspectArgs, LsArgs},
    once::OnceArgs,
    options::SharedArgs,
    pages::{CompletionsArgs, ManArgs},
    run::RunArgs,
    serve::ServeArgs,
    status::StatusArgs,
};

const ENVIRONMENT: &str = "\
Environment:
  REDLOCK_CONFIG  the file, unless --config names one
  REDLOCK_NODES   the servers, unless --nodes or the file names servers
  REDLOCK_PREFIX  the prefix, unless --prefix or the file sets one
  REDLOCK_ASSUME_NEW_SERVERS  1: servers without a record of a vote vote at once (for tests)
  NO_COLOR        switches colours off

All programs that use the same locks need the same settings: servers vote only for clients with the \
same nodes, names, prefix and guards. Put URLs with passwords into the file or the environment: every \
user of a machine can read command lines.

Exit codes (`doctor` also has 1 and 2):
   0  done
  64  wrong usage, or an action that was not confirmed
  65  a key that another program wrote
  69  no quorum, or too few servers
  70  the lock was lost
  71  an error of the operating system
  74  the output could not be written
  75  held by another client
  78  wrong or missing settings
 141  the reader of the output has ended";

/// Runs programs under a quorum lock over independent Redis servers, and shows and steers locks.
#[derive(Debug, Parser)]
#[command(name = "redlock", version = version(), after_help = ENVIRONMENT, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Returns the version of the program and of its time zone database, which determines ticks.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let zones = zone_database_version().unwrap_or("unknown");
        format!("{} (time zones {zones})", env!("CARGO_PKG_VERSION"))
    });
    &VERSION
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunArgs>),
    Status(StatusArgs),
    Serve(ServeArgs),
    Ls(LsArgs),
    Inspect(InspectArgs),
    Break(BreakArgs),
    Jobs(JobsArgs),
    Once(OnceArgs),
    Doctor(DoctorArgs),
    Adopt(AdoptArgs),
    /// Lowers the `max_ttl` on the servers to the value in the settings
    ///
    /// Lower it in the configuration of all clients first. Waits until locks with a longer TTL have expired.
    LowerMaxTtl,
    Bench(BenchArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Parses the command line; prints help and errors.
pub(crate) fn parse() -> Result<Args, ExitCode> {
    Args::try_parse().map_err(|mut error| {
        hide_urls(&mut error);
        // A closed output cannot be reported anywhere.
        let _ = error.print();
        if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS }
    })
}

/// Takes arguments that may contain a password out of an error.
fn hide_urls(error: &mut clap::Error) {
    let is_url = |(kind, value): (ContextKind, &ContextValue)| {
        let has_url = value.to_string().contains("://");
        (has_url && kind != ContextKind::Usage).then_some(kind)
    };
    let kinds: Vec<_> = error.context().filter_map(is_url).collect();
    for kind in kinds {
        error.insert(kind, ContextValue::String("(a URL)".into()));
    }
}
