//! What the library logs, on the standard error.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::LevelFilter;

use crate::args::{Args, Command};

/// Logs warnings while a command runs under a lock, more with `-v`.
pub(crate) fn start(args: &Args) {
    let level = match (args.shared.verbose, &args.command) {
        (0, Command::Run(_)) => LevelFilter::WARN,
        (0, _) => LevelFilter::OFF,
        (1, _) => LevelFilter::INFO,
        (2.., _) => LevelFilter::DEBUG,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .with_target(false)
        .init();
}
