//! The command line: what all commands share, and which command it is.

use std::{path::PathBuf, process::ExitCode, sync::LazyLock, time::Duration};

use clap::{
    ArgAction, Parser, Subcommand, ValueEnum,
    error::{ContextKind, ContextValue},
};
use tower_redlock::schedule::zone_database_version;

use crate::{
    bench::BenchArgs,
    doctor::DoctorArgs,
    exit,
    jobs::JobsArgs,
    locks::{BreakArgs, InspectArgs, LsArgs},
    once::OnceArgs,
    pages::{CompletionsArgs, ManArgs},
    run::RunArgs,
    serve::ServeArgs,
    sets::AdoptArgs,
    status::StatusArgs,
};

const ENVIRONMENT: &str = "\
Environment:
  REDLOCK_CONFIG  as --config
  REDLOCK_NODES   as --nodes, where neither --nodes nor the file names servers
  REDLOCK_PREFIX  as --prefix, where neither --prefix nor the file has one
  NO_COLOR        no colours on a terminal either

The settings must be those of the programs that use the same locks: servers vote only for clients \
with the same nodes, names, prefix and guards. URLs with passwords belong into the file or the \
environment, as every user of a machine can read command lines.

Exit codes (`doctor` has 1 and 2 besides):
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

/// The version, with that of the time zone database, on which ticks depend.
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
    /// Lowers the `max_ttl` that the servers keep to the one of the settings
    ///
    /// When no client asks for more: lower it in the configuration of all clients first. Waits until locks
    /// with a longer TTL have expired.
    LowerMaxTtl,
    Bench(BenchArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// The options of every command.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SharedArgs {
    /// A TOML file with settings as `tower_redlock::Config` reads them
    #[arg(long, global = true, value_name = "FILE", help_heading = "Settings")]
    pub(crate) config: Option<PathBuf>,
    /// Independent servers, separated by commas: [NAME=]redis://host:port
    #[arg(long, global = true, value_name = "URLS", help_heading = "Settings")]
    pub(crate) nodes: Option<String>,
    /// Prefix of the keys on the servers [default: redlock]
    #[arg(long, global = true, value_name = "PREFIX", help_heading = "Settings")]
    pub(crate) prefix: Option<String>,
    /// For how long a lock outlives a client that crashed [default: 10s]
    #[arg(long, global = true, value_name = "TIME", value_parser = time, help_heading = "Settings")]
    pub(crate) ttl: Option<Duration>,
    /// The longest TTL that any client uses; a server that restarted is in probation for that long
    /// [default: the TTL]
    #[arg(long, global = true, value_name = "TIME", value_parser = time, help_heading = "Settings")]
    pub(crate) max_ttl: Option<Duration>,
    /// Whether servers that restarted wait before they vote [default: probation]
    #[arg(long, global = true, value_name = "WHAT", help_heading = "Settings")]
    pub(crate) restart_guard: Option<RestartGuard>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more on the standard error: -v what happens, -vv every request
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RestartGuard {
    Probation,
    Off,
}

/// Parses a time like `10s` or `250ms`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "no time like 10s, 250ms or 1h".into())
}

/// Parses the command line; prints help and errors.
pub(crate) fn parse() -> Result<Args, ExitCode> {
    Args::try_parse().map_err(|mut error| {
        hide_urls(&mut error);
        // Where the output is closed, nobody reads it.
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
