//! `redlock jobs`: the jobs of the fleet, their latest runs, and commands for all replicas.

mod change;
mod history;
mod list;

use std::{
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::Subcommand;

pub(crate) use self::list::{COLUMNS, JobRow, first_jobs};

use crate::{
    args::{SharedArgs, time},
    exit::Failure,
    glob::Glob,
    settings::Settings,
    settle::settle,
};

/// Shows and steers the jobs of the fleet
#[derive(Debug, clap::Args)]
pub(crate) struct JobsArgs {
    #[command(subcommand)]
    command: JobsCommand,
}

#[derive(Debug, Subcommand)]
enum JobsCommand {
    /// Lists the jobs that the servers know: what runs where, the last run, pauses
    ///
    /// With --json, one object a line.
    #[command(visible_alias = "ls")]
    List {
        /// Only jobs that match: * is any text, ? is any character, \ takes the next one as it is
        #[arg(value_parser = Glob::parse, default_value = "*")]
        glob: Glob,
    },
    /// Shows the last 50 runs of a job, the latest first, and its pause
    History { job: String },
    /// Starts no more ticks of a job, on any replica; a current run continues
    Pause {
        job: String,
        #[command(flatten)]
        reason: Reason,
        /// The end of the pause: 2026-03-01T03:00:00Z [default: until it is resumed]
        #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "duration")]
        until: Option<SystemTime>,
        /// How long the pause lasts
        #[arg(long = "for", id = "duration", value_name = "TIME", value_parser = time)]
        duration: Option<Duration>,
    },
    /// Ends a pause
    Resume {
        job: String,
        #[command(flatten)]
        reason: Reason,
    },
    /// Runs a job once, now, on any replica
    Trigger {
        job: String,
        #[command(flatten)]
        reason: Reason,
    },
    /// Removes what the servers keep of a job that no replica has any more, after a confirmation
    Forget {
        job: String,
        /// Confirm; required without a terminal
        #[arg(long)]
        yes: bool,
    },
}

/// Who gives a command, and why.
#[derive(Clone, Debug, clap::Args)]
struct Reason {
    /// The reason, for people
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// Who gives the command [default: the user of this process, and where it runs]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

fn moment(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339_weak(text).map_err(|_| "no time like 2026-03-01T03:00:00Z".into())
}

pub(crate) async fn jobs(shared: &SharedArgs, args: &JobsArgs) -> Result<ExitCode, Failure> {
    let redlock = Settings::new(shared)?.build()?;
    settle(&redlock).await;
    // A command would wait for a quorum for two TTLs.
    redlock.readiness()?;
    let code = match &args.command {
        JobsCommand::List { glob } => list::list(&redlock, glob, shared.json).await,
        JobsCommand::History { job } => history::history(&redlock, job, shared.json).await,
        JobsCommand::Pause { job, reason, until, duration } => {
            let until = duration.map(|time| SystemTime::now() + time).or(*until);
            change::pause(&redlock, job, reason, until, shared.json).await
        }
        JobsCommand::Resume { job, reason } => {
            change::resume(&redlock, job, reason, shared.json).await
        }
        JobsCommand::Trigger { job, reason } => {
            change::trigger(&redlock, job, reason, shared.json).await
        }
        JobsCommand::Forget { job, yes } => change::forget(&redlock, job, *yes, shared.json).await,
    };
    redlock.shutdown().await;
    code
}
