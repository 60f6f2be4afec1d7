//! `redlock jobs`: the jobs of the fleet, their latest runs, and commands for all replicas.

mod change;
mod history;
mod list;
mod next;

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
    /// Shows the next ticks of a job, as its replicas compute them
    Next {
        job: String,
        /// Number of ticks
        #[arg(short, long, value_name = "NUMBER", default_value_t = 10)]
        number: u16,
    },
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
    /// Stops the run of a job that is under way, on whatever replica, and waits for its end
    Stop {
        job: String,
        #[command(flatten)]
        reason: Reason,
        /// For how long to wait for the end of the run
        #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
        timeout: Duration,
    },
    /// Removes what the servers keep of a job that no replica has any more, after a confirmation
    #[command(group = clap::ArgGroup::new("which").required(true).args(["job", "unused_for"]))]
    Forget {
        job: Option<String>,
        /// All jobs that have been unused for that long: since the first tick that none of their replicas ran
        #[arg(long, value_name = "TIME", value_parser = time)]
        unused_for: Option<Duration>,
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
        JobsCommand::Next { job, number } => next::next(&redlock, job, *number, shared.json).await,
        JobsCommand::Stop { job, reason, timeout } => {
            change::stop(&redlock, job, reason, *timeout, shared.json).await
        }
        JobsCommand::Forget { job, unused_for, yes } => match (job, unused_for) {
            (Some(job), _) => change::forget(&redlock, job, *yes, shared.json).await,
            (None, time) => {
                let time = time.unwrap_or(Duration::MAX);
                change::forget_unused(&redlock, time, *yes, shared.json).await
            }
        },
    };
    redlock.shutdown().await;
    code
}
