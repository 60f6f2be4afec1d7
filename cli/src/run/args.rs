//! The options of `run`.

use std::{
    ffi::OsString,
    time::{Duration, SystemTime},
};

use rustix::process::Signal;

use super::signals;
use crate::{
    exit,
    options::{moment, time},
};

const MODES: &str = "\
Exit codes: the command's own; 128+n if signal n ended it; 126 if it can't be run, 127 if it is not \
found; 75 (-E) if the lock is held, or the wait is over; 69 without a quorum; 70 if the lock was lost \
or the job's run was stopped, and the command ended; 64 for wrong usage, or if a redlock run above holds a \
name; 78 for wrong or missing settings, or servers that can't vote. With --once or --tick, 0 if it is done already.

The command runs in a process group of its own. What it leaves running there is ended before the lock \
is released. The environment has REDLOCK_NAME, REDLOCK_TOKEN, REDLOCK_OWNER and REDLOCK_HELD. \
The environment of --notify-failure has REDLOCK_JOB, REDLOCK_TICK, REDLOCK_ATTEMPT, REDLOCK_OUTCOME and REDLOCK_ERROR.";

/// Run a command while a lock is held, and end it before the lock can be another client's
#[derive(Debug, clap::Args)]
#[command(after_help = MODES, override_usage = "\
redlock run [OPTIONS] NAME... -- COMMAND [ARG]...
       redlock run [OPTIONS] --once KEY -- COMMAND [ARG]...
       redlock run [OPTIONS] --tick JOB --cron EXPRESSION [--tz ZONE] -- COMMAND [ARG]...
       redlock run [OPTIONS] --leader NAME -- COMMAND [ARG]...")]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(false).args(["names", "once", "tick", "leader"]))]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct RunArgs {
    /// The names to lock: all of them, or none
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The command and its arguments; no shell is involved
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// Run the command unless it has succeeded under this key before
    #[arg(long, value_name = "KEY")]
    pub(crate) once: Option<String>,
    /// With --once: for how long success is remembered [default: 7d]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "once")]
    pub(crate) retain: Option<Duration>,
    /// Run the command for the job's latest tick, unless another host has: for several hosts with the same
    /// crontab
    #[arg(long, value_name = "JOB", requires = "cron")]
    pub(crate) tick: Option<String>,
    /// With --tick: when the ticks are, as in crontab(5)
    #[arg(long, value_name = "EXPRESSION", requires = "tick")]
    pub(crate) cron: Option<String>,
    /// With --cron: the time zone [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "cron")]
    pub(crate) tz: Option<String>,
    /// With --tick: the time whose latest tick is run, like 2026-03-01T03:00:00Z; an empty one is now
    /// [default: now]
    #[arg(long, value_name = "TIME", value_parser = at, requires = "tick")]
    pub(crate) at: Option<Moment>,
    /// With --tick: a start this long before a tick, or less, means that tick, and waits for it; always less
    /// than half of the time between two ticks [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "tick", conflicts_with = "at")]
    pub(crate) early: Option<Duration>,
    /// With --tick: how often a tick is tried, over all hosts, if the command fails or is killed
    #[arg(long, value_name = "NUMBER", requires = "tick", default_value_t = 1)]
    pub(crate) attempts: u32,
    /// Run the command while this process is the leader of that name
    #[arg(long, value_name = "NAME")]
    pub(crate) leader: Option<String>,
    /// For how long to wait for the lock [default: without limit]
    #[arg(short, long, value_name = "TIME", value_parser = time, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait for the lock
    #[arg(short, long)]
    pub(crate) no_wait: bool,
    /// Exit code if the lock is held, or the wait is over
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::HELD)]
    pub(crate) conflict_exit_code: u8,
    /// For how long the lock is held at most [default: without limit]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_hold: Option<Duration>,
    /// The signal that asks the command to stop, before the lock ends
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signals::parse)]
    pub(crate) stop_signal: Signal,
    /// Kill the command that long after the signal [default: 100 ms before the lock ends, and 10s after
    /// `redlock jobs stop`]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) kill_after: Option<Duration>,
    /// What sh(1) executes after the lock was lost and the command stopped
    #[arg(long, value_name = "COMMAND")]
    pub(crate) on_lost: Option<OsString>,
    /// With --tick: what sh(1) executes after the tick failed or was missed, once for all hosts
    #[arg(long, value_name = "COMMAND", requires = "tick")]
    pub(crate) notify_failure: Option<OsString>,
    /// Leave the command in the process group of this program, as with a terminal on the standard input
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Run the command at once if a process above this one holds a name: by default that is an error, as the
    /// two would wait for each other
    #[arg(long)]
    pub(crate) pass_through: bool,
    /// Leave processes running that outlive the command: they run without the lock
    #[arg(long)]
    pub(crate) leave_daemons: bool,
    /// Stop the command when the standard input ends, as it does when an ssh client is gone; the command's own
    /// standard input is empty
    #[arg(long)]
    pub(crate) end_with_stdin: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// What others see as the holder of the lock [default: redlock@host:pid]
    #[arg(long, value_name = "TEXT")]
    pub(crate) owner: Option<String>,
}

/// A time, or `None` for now: the program that starts this one may have no time to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Option<SystemTime>);

fn at(text: &str) -> Result<Moment, &'static str> {
    if text.is_empty() { Ok(Moment(None)) } else { moment(text).map(|time| Moment(Some(time))) }
}

impl RunArgs {
    /// The names of the locks that the command runs under.
    pub(crate) fn lock_names(&self) -> Vec<String> {
        let special = [("once", &self.once), ("job", &self.tick), ("leader", &self.leader)];
        let special = special
            .into_iter()
            .filter_map(|(kind, name)| Some(format!("{kind}:{}", name.as_ref()?)));
        self.names.iter().cloned().chain(special).collect()
    }

    /// The limit for the wait for the lock; [`Duration::MAX`] means without a limit.
    pub(crate) fn wait(&self) -> Duration {
        if self.no_wait { Duration::ZERO } else { self.wait.unwrap_or(Duration::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_time_means_now() {
        assert_eq!(at(""), Ok(Moment(None)));
        assert!(matches!(at("2026-03-01T03:00:00Z"), Ok(Moment(Some(_)))));
        assert!(at("soon").is_err());
    }
}
