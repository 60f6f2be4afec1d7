//! `redlock ls`: all locks, as they are read.

use std::time::SystemTime;

use futures_util::TryStreamExt;

use super::{COLUMNS, lock_cells, lock_json};
use crate::{
    client::Client,
    exit::Failure,
    glob::Glob,
    options::SharedArgs,
    output::{Table, print, print_json_line, say},
};

/// Lists the locks that are held
///
/// Reads the servers in small steps, so that locks are not delayed. A lock that is acquired or released
/// meanwhile may be missing. Keys that only a minority of the nodes keeps are marked: an attempt is under
/// way, or a client crashed. With --json, prints one object per line.
#[derive(Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// Only names that match: * is any text, ? is any character, \ takes the next one as it is
    #[arg(default_value = "*")]
    glob: Glob,
}

pub(crate) async fn ls(shared: &SharedArgs, args: &LsArgs) -> Result<(), Failure> {
    let client = Client::settled(shared).await?;
    let mut locks = std::pin::pin!(client.redlock.locks());
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
        if shared.json {
            print_json_line(&lock_json(&holder))?;
        } else {
            print(&table.row(lock_cells(&holder, SystemTime::now())))?;
        }
    };
    print(&table.end())?;
    if ended.is_err() {
        say("redlock: locks may be missing from this list");
    }
    Ok(ended?)
}
