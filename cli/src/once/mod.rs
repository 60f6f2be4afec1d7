//! `redlock once`: what the servers keep of work that is done once, and decisions about it by hand.

mod decide;
mod list;
mod status;

use std::{process::ExitCode, time::Duration};

use clap::Subcommand;

use crate::{
    args::{SharedArgs, time},
    exit::Failure,
    glob::Glob,
    settings::Settings,
    settle::settle,
};

/// Shows and changes what the servers keep of work that is done once per key
#[derive(Debug, clap::Args)]
pub(crate) struct OnceArgs {
    #[command(subcommand)]
    command: OnceCommand,
}

#[derive(Debug, Subcommand)]
enum OnceCommand {
    /// Shows whether the work is done, in progress, or has an unknown outcome
    ///
    /// Restores the record of done work on servers that lost it.
    Status { key: String },
    /// Records that the work is done, without running it
    ///
    /// For work whose effect was found. Fails with 75 while the work runs.
    Done {
        key: String,
        /// How long the record is kept [default: 4 days]
        #[arg(long, value_name = "TIME", value_parser = time)]
        retain: Option<Duration>,
    },
    /// Removes the record, after a confirmation: the next request runs the work again
    ///
    /// Every server has to answer. Fails with 75 while the work runs.
    Forget {
        key: String,
        /// Confirm; required without a terminal
        #[arg(long)]
        yes: bool,
    },
    /// Lists the keys of which the servers keep a record
    ///
    /// With --json, one object a line.
    Ls {
        /// Only keys that match: * is any text, ? is any character, \ takes the next one as it is
        #[arg(value_parser = Glob::parse, default_value = "*")]
        glob: Glob,
    },
}

pub(crate) async fn once(shared: &SharedArgs, args: &OnceArgs) -> Result<ExitCode, Failure> {
    let redlock = Settings::new(shared)?.build()?;
    settle(&redlock).await;
    match &args.command {
        OnceCommand::Status { key } => status::status(&redlock, key, shared.json).await,
        OnceCommand::Done { key, retain } => {
            decide::done(&redlock, key, *retain, shared.json).await
        }
        OnceCommand::Forget { key, yes } => decide::forget(&redlock, key, *yes, shared.json).await,
        OnceCommand::Ls { glob } => list::ls(&redlock, glob, shared.json).await,
    }
}
