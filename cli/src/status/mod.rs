//! `redlock status`: the servers and the locks, once or live.
//!
//! | to find | look in |
//! |---|---|
//! | the report that is printed once | `report` |
//! | reading the first locks | `listing` |
//! | what the live view shows, and when it changes | `view` |
//! | when it is drawn, and what ends it | `watch` |

mod listing;
mod report;
mod view;
mod watch;

use std::{process::ExitCode, time::Duration};

use crate::{args::SharedArgs, exit::Failure, settings::Settings};

/// Number of locks that are shown once.
const FEW: usize = 10;
/// Number of locks that a live view reads.
const MANY: usize = 200;

/// Shows the servers and the first locks, once or live
///
/// Exits with 69 without a quorum.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Show them live, until q or Ctrl-C
    ///
    /// Takes over the screen. Without a terminal, prints a block for each change; with --json, an object
    /// on a line.
    #[arg(long)]
    watch: bool,
    /// How many locks to read at most [default: 10; with --watch 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16))]
    locks: Option<u16>,
    /// Time between two readings of the locks
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s", requires = "watch")]
    interval: Duration,
}

/// Parses an interval, which must not load the servers all the time.
fn interval(text: &str) -> Result<Duration, String> {
    let time = crate::args::time(text)?;
    if time < Duration::from_millis(100) { Err("100ms or more".into()) } else { Ok(time) }
}

pub(crate) async fn status(shared: &SharedArgs, args: &StatusArgs) -> Result<ExitCode, Failure> {
    let settings = Settings::new(shared)?;
    let redlock = settings.build()?;
    let limit = |default| args.locks.map_or(default, usize::from);
    if args.watch {
        return watch::watch(redlock, &settings, limit(MANY), args.interval, shared.json).await;
    }
    report::print_once(&redlock, &settings, limit(FEW), shared.json).await
}
