//! `redlock ls`: all locks, as they are read.

use std::{process::ExitCode, time::SystemTime};

use futures_util::TryStreamExt;

use super::{COLUMNS, LockRow};
use crate::{
    args::SharedArgs,
    exit::Failure,
    glob::Glob,
    output::{Table, print, print_json_line, say},
    settings::Settings,
    settle::settle,
};

/// Lists the locks that are held
///
/// Reads the servers in small steps, so that locks are not delayed. A lock that is acquired or released
/// meanwhile may be missing. Keys that only a minority of the nodes keeps are marked: they are of an
/// attempt under way, or left by a crash. With --json, one object a line.
#[derive(Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// Only names that match: * is any text, ? is any character, \ takes the next one as it is
    #[arg(value_parser = Glob::parse, default_value = "*")]
    glob: Glob,
}

pub(crate) async fn ls(shared: &SharedArgs, args: &LsArgs) -> Result<ExitCode, Failure> {
    let redlock = Settings::new(shared)?.build()?;
    settle(&redlock).await;
    let mut locks = std::pin::pin!(redlock.locks());
    let mut table = Table::new(COLUMNS);
    let ended = loop {
        let holder = match locks.try_next().await {
            Ok(Some(holder)) => holder,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        if !args.glob.matches(&holder.name) {
            continue;
        }
        let row = LockRow::from(&holder);
        if shared.json {
            print_json_line(&row.json())?;
        } else {
            print(&table.row(row.cells(SystemTime::now())))?;
        }
    };
    print(&table.end())?;
    if ended.is_err() {
        say("redlock: locks may be missing from this list");
    }
    Ok(ended.map(|()| ExitCode::SUCCESS)?)
}
