//! The options of `jobs`, and which command it is.

use std::time::{Duration, SystemTime};

use clap::Subcommand;
use tower_redlock::lock::NotReady;

use super::{
    known,
    list::list,
    show::{history, next},
    steer::{Reason, forget, forget_unused, pause, resume, stop, trigger},
};
use crate::{
    client::Client,
    exit::Failure,
    glob::Glob,
    options::{SharedArgs, moment, time},
};

/// Shows and steers the jobs of the fleet
#[derive(Debug, clap::Args)]
pub(crate) struct JobsArgs {
    /// Default: list
    #[command(subcommand)]
    command: Option<JobsCommand>,
}

#[derive(Debug, Subcommand)]
enum JobsCommand {
    /// Lists the jobs that the servers know: what runs where, the last run, pauses
    ///
    /// Prints one object per line with --json.
    #[command(visible_alias = "ls")]
    List {
        /// Only jobs that match: * is any text, ? is any character, \ takes the next one as it is
        #[arg(default_value = "*")]
        glob: Glob,
    },
    /// Shows the last 50 runs of a job, the latest first, and its pause
    History {
        /// The name of the job
        job: String,
    },
    /// Shows the next ticks of a job, as its replicas compute them
    Next {
        /// The name of the job
        job: String,
        /// Number of ticks
        #[arg(short, long, value_name = "NUMBER", default_value_t = 10)]
        number: u16,
    },
    /// Starts no more ticks of a job, on any replica; a current run continues
    Pause {
        /// The name of the job
        job: String,
        #[command(flatten)]
        reason: Reason,
        /// The end of the pause: 2026-03-01T03:00:00Z [default: until it is resumed]
        #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "duration")]
        until: Option<SystemTime>,
        /// How long the pause lasts
        #[arg(long = "for", id = "duration", value_name = "TIME", value_parser = time)]
        duration: Option<Duration>,
        /// Also if the servers know no such job: it is paused before its first tick
        #[arg(long)]
        anyway: bool,
    },
    /// Ends a pause
    Resume {
        /// The name of the job
        job: String,
        #[command(flatten)]
        reason: Reason,
    },
    /// Runs a job once, now, on any replica
    Trigger {
        /// The name of the job
        job: String,
        #[command(flatten)]
        reason: Reason,
    },
    /// Stops the current run of a job, or all runs of a parallel one, on any replica, and waits for the end
    Stop {
        /// The name of the job
        job: String,
        #[command(flatten)]
        reason: Reason,
        /// Maximum wait for the end of the run
        #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
        timeout: Duration,
    },
    /// Removes what the servers keep of a job that no replica has any more, after a confirmation
    #[command(group = clap::ArgGroup::new("which").required(true).args(["job", "unused_for"]))]
    Forget {
        /// The name of the job
        job: Option<String>,
        /// All jobs that have been unused for this time: since the first tick that none of their replicas ran
        #[arg(long, value_name = "TIME", value_parser = time)]
        unused_for: Option<Duration>,
        /// Confirm; required without a terminal
        #[arg(long)]
        yes: bool,
    },
}

impl JobsCommand {
    /// Returns the job that it is about, if it is one.
    fn job(&self) -> Option<&str> {
        match self {
            Self::List { .. } => None,
            Self::Forget { job, .. } => job.as_deref(),
            Self::History { job }
            | Self::Next { job, .. }
            | Self::Pause { job, .. }
            | Self::Resume { job, .. }
            | Self::Trigger { job, .. }
            | Self::Stop { job, .. } => Some(job),
        }
    }
}

/// Checks that the servers of a job vote, as a command would wait for them for two TTLs; without a job, those
/// of any set.
fn ready(client: &Client, job: Option<&str>) -> Result<(), NotReady> {
    let redlock = &client.redlock;
    match job {
        Some(job) => redlock.sets()[redlock.set_index(&format!("job:{job}"))].readiness(),
        None if redlock.sets().iter().any(|set| set.readiness().is_ok()) => Ok(()),
        None => redlock.readiness(),
    }
}

pub(crate) async fn jobs(shared: &SharedArgs, args: &JobsArgs) -> Result<(), Failure> {
    let client = match &args.command {
        None
        | Some(JobsCommand::List { .. } | JobsCommand::History { .. } | JobsCommand::Next { .. }) => {
            Client::reading(shared).await?
        }
        Some(_) => Client::settled(shared).await?,
    };
    let Some(command) = &args.command else {
        ready(&client, None)?;
        return list(&client, &Glob::any()).await;
    };
    ready(&client, command.job())?;
    let ended = match command {
        JobsCommand::List { glob } => list(&client, glob).await,
        JobsCommand::History { job } => history(&client, job).await,
        JobsCommand::Next { job, number } => next(&client, job, *number).await,
        JobsCommand::Pause { job, reason, until, duration, anyway } => {
            let until = duration.map(|time| SystemTime::now() + time).or(*until);
            if !anyway {
                let otherwise = "; --anyway pauses it before its first tick";
                known::check(&client, job, otherwise).await?;
            }
            pause(&client, job, reason, until).await
        }
        JobsCommand::Resume { job, reason } => resume(&client, job, reason).await,
        JobsCommand::Trigger { job, reason } => trigger(&client, job, reason).await,
        JobsCommand::Stop { job, reason, timeout } => stop(&client, job, reason, *timeout).await,
        JobsCommand::Forget { job: Some(job), yes, .. } => forget(&client, job, *yes).await,
        JobsCommand::Forget { unused_for, yes, .. } => {
            forget_unused(&client, unused_for.unwrap_or(Duration::MAX), *yes).await
        }
    };
    client.redlock.shutdown().await;
    ended
}
