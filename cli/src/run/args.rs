//! The options of `run`, and the task that they describe.

use std::{
    ffi::OsString,
    time::{Duration, SystemTime},
};

use rustix::process::Signal;
use tower_redlock::{LockError, Redlock, Resource, Schedule, scheduler::TickRequest};

use super::{signals, zone};
use crate::{
    exit::{self, Failure},
    options::{moment, time},
};

const MODES: &str = "\
Exit codes: the command's own; 128+n if signal n ended it; 126 if it can't be run, 127 if it is not \
found; 75 (-E) if the lock is held, or the wait is over; 69 without a quorum; 70 if the lock was lost \
or the job's run was stopped, and the command ended; 64 for wrong usage, or if a redlock run above holds a \
name; 76 if another command has run the tick under the same job name; 78 for wrong or missing settings, or servers that can't vote. With --once or --tick, 0 if it is done already.

The command runs in a process group of its own. What it leaves running there is ended before the lock \
is released. The environment has REDLOCK_NAME, REDLOCK_TOKEN, REDLOCK_OWNER and REDLOCK_HELD, with \
--slots REDLOCK_SLOT, and with --shared REDLOCK_MODE=shared. \
The environment of --notify-failure has REDLOCK_JOB, REDLOCK_TICK, REDLOCK_ATTEMPT, REDLOCK_OUTCOME and REDLOCK_ERROR.";

/// Run a command while a lock is held, and end it before the lock can be another client's
#[derive(Debug, clap::Args)]
#[command(after_help = MODES, override_usage = "\
redlock run [OPTIONS] NAME... -- COMMAND [ARG]...
       redlock run [OPTIONS] --shared NAME -- COMMAND [ARG]...
       redlock run [OPTIONS] --slots NUMBER NAME -- COMMAND [ARG]...
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
    /// Run the command while the name is locked for reading: beside others with this option, and never beside a
    /// run without it
    #[arg(long, conflicts_with_all = ["slots", "once", "tick", "leader"])]
    pub(crate) shared: bool,
    /// Run the command while it has one of this many slots of the name: 1 to 256, alike on all hosts
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(Resource::MAX_SLOTS)),
        conflicts_with_all = ["once", "tick", "leader"])]
    pub(crate) slots: Option<u32>,
    /// Run the command unless it has succeeded under this key before
    #[arg(long, value_name = "KEY")]
    pub(crate) once: Option<String>,
    /// With --once: how long success is remembered
    #[arg(long, value_name = "TIME", value_parser = time, requires = "once", default_value = "7d")]
    pub(crate) retain: Duration,
    /// Run the command for the job's latest tick, unless another host has: for several hosts with the same
    /// crontab
    #[arg(long, value_name = "JOB", requires = "cron")]
    pub(crate) tick: Option<String>,
    /// With --tick: when the ticks are, as in crontab(5)
    #[arg(long, value_name = "EXPRESSION", requires = "tick")]
    pub(crate) cron: Option<String>,
    /// With --cron: the time zone, such as Europe/Berlin [default: that of this host, as cron(8) has it:
    /// `CRON_TZ`, `TZ`, /etc/localtime]
    #[arg(long, value_name = "ZONE", requires = "cron")]
    pub(crate) tz: Option<String>,
    /// With --tick: run the latest tick at this time, such as 2026-03-01T03:00:00Z; an empty text means now
    /// [default: now]
    #[arg(long, value_name = "TIME", value_parser = at, requires = "tick")]
    pub(crate) at: Option<Moment>,
    /// With --tick: a start at most this long before a tick waits for that tick and runs it; always less than
    /// half of the time between two ticks [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "tick", conflicts_with = "at")]
    pub(crate) early: Option<Duration>,
    /// With --tick: a text that says what runs at the ticks, if the command lines of the hosts differ. Two lines of
    /// one job name with different texts are a conflict [default: the command]
    #[arg(long, value_name = "TEXT", requires = "tick")]
    pub(crate) work_id: Option<String>,
    /// With --tick: maximum number of attempts at a tick, over all hosts, if the command fails or is killed
    #[arg(long, value_name = "NUMBER", requires = "tick", default_value_t = 1)]
    pub(crate) attempts: u32,
    /// Run the command while this process is the leader of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) leader: Option<String>,
    /// Maximum wait for the lock [default: without limit; with --tick: the time until the next tick]
    #[arg(short, long, value_name = "TIME", value_parser = time, conflicts_with = "no_wait")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait for the lock
    #[arg(short, long)]
    pub(crate) no_wait: bool,
    /// Exit code if the lock is held, or the wait is over
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::HELD)]
    pub(crate) conflict_exit_code: u8,
    /// Maximum time to hold the lock [default: without limit]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_hold: Option<Duration>,
    /// The signal that asks the command to stop, before the lock ends
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = signals::parse)]
    pub(crate) stop_signal: Signal,
    /// Time from the signal until the command is killed [default: 100 ms before the lock ends, and 10s after
    /// `redlock jobs stop`]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) kill_after: Option<Duration>,
    /// Shell command to run after the lock was lost and the command stopped
    #[arg(long, value_name = "COMMAND")]
    pub(crate) on_lost: Option<OsString>,
    /// With --tick: shell command to run after the tick failed or was missed, once for all hosts
    #[arg(long, value_name = "COMMAND", requires = "tick")]
    pub(crate) notify_failure: Option<OsString>,
    /// Leave the command in the process group of this program, as with a terminal on the standard input
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Run the command at once if a process above this one holds a name, or with --slots a slot of it: by
    /// default it is an error if the two would wait for each other
    #[arg(long)]
    pub(crate) pass_through: bool,
    /// Do not end processes that outlive the command: they run without the lock
    #[arg(long)]
    pub(crate) leave_daemons: bool,
    /// Stop the command when the standard input ends, as it does when an ssh client is gone; the command's own
    /// standard input is empty
    #[arg(long)]
    pub(crate) end_with_stdin: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Name of this client, which others see as the holder of the lock [default: redlock@host:pid]
    #[arg(long, value_name = "TEXT")]
    pub(crate) owner: Option<String>,
}

/// A time, or `None` for now: the program that starts this one may have no time to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(Option<SystemTime>);

fn at(text: &str) -> Result<Moment, &'static str> {
    if text.is_empty() { Ok(Moment(None)) } else { moment(text).map(|time| Moment(Some(time))) }
}

impl RunArgs {
    /// The limit for the wait for the lock; [`Duration::MAX`] means without a limit.
    pub(crate) fn wait(&self) -> Duration {
        if self.no_wait { Duration::ZERO } else { self.wait.unwrap_or(Duration::MAX) }
    }

    /// Returns whether no option sets the limit for the wait.
    pub(crate) const fn has_default_wait(&self) -> bool {
        self.wait.is_none() && !self.no_wait
    }

    /// Returns what runs at the ticks: other lines with the name of the job must say the same.
    fn work_id(&self) -> String {
        let of_command = || {
            let words = self.command.iter().map(|word| word.to_string_lossy());
            words.collect::<Vec<_>>().join("\0")
        };
        self.work_id.clone().unwrap_or_else(of_command)
    }

    /// Returns the time zone of `--cron`.
    pub(crate) fn zone(&self) -> Result<String, Failure> {
        self.tz.clone().map_or_else(zone::of_host, Ok)
    }

    /// Returns whether the tick is that of the time at which this program starts.
    pub(crate) const fn is_tick_of_now(&self) -> bool {
        matches!(self.at, None | Some(Moment(None)))
    }
}

/// What the command is run for.
pub(crate) enum Task<'a> {
    Lock(Resource),
    /// The name, beside others that share it.
    Shared(Resource),
    /// One of these slots of the name.
    Slot(Resource, Vec<Resource>),
    Once(&'a str),
    Tick(&'a str, Box<TickRequest>),
}

impl<'a> Task<'a> {
    pub(crate) fn new(redlock: &Redlock, args: &'a RunArgs) -> Result<Self, Failure> {
        if let Some(key) = &args.once {
            return Ok(Self::Once(key));
        }
        if let Some(job) = &args.tick {
            return tick_request(redlock, job, args).map(|request| Self::Tick(job, request.into()));
        }
        let resource = match &args.leader {
            Some(name) => Resource::of_leader(name),
            None => Resource::new(args.names.iter().map(String::as_str)),
        };
        let resource = resource.map_err(LockError::from)?;
        match args.slots {
            Some(count) => slots_of(resource, count),
            None if args.shared && resource.names().len() > 1 => {
                Err(Failure::usage("--shared takes one name"))
            }
            None if args.shared => Ok(Self::Shared(resource)),
            None => Ok(Self::Lock(resource)),
        }
    }

    /// Returns the names of the locks that the command runs under; with slots, of those that it may run under.
    pub(crate) fn lock_names(&self) -> Vec<String> {
        match self {
            Self::Lock(resource) | Self::Shared(resource) => {
                resource.names().map(str::to_owned).collect()
            }
            Self::Slot(_, slots) => slots.iter().map(Resource::to_string).collect(),
            Self::Once(key) => vec![format!("once:{key}")],
            Self::Tick(job, _) => vec![format!("job:{job}")],
        }
    }
}

fn slots_of(resource: Resource, count: u32) -> Result<Task<'static>, Failure> {
    let resource = resource.not_reserved().map_err(LockError::from)?;
    let mut names = resource.names();
    let (Some(name), None) = (names.next(), names.next()) else {
        return Err(Failure::usage("--slots takes one name: the slots are those of that name"));
    };
    let slots: Result<_, _> = (0..count).map(|slot| Resource::of_slot(name, slot)).collect();
    let slots = slots.map_err(LockError::from)?;
    drop(names);
    Ok(Task::Slot(resource, slots))
}

fn tick_request(redlock: &Redlock, job: &str, args: &RunArgs) -> Result<TickRequest, Failure> {
    let expression = args.cron.as_deref().unwrap_or_default();
    let zone = args.zone()?;
    let schedule = Schedule::cron(expression).and_then(|cron| cron.in_tz(&zone));
    let schedule = schedule.map_err(|error| Failure::usage(error.to_string()))?;
    let mut request =
        redlock.job_tick(job, schedule).attempts(args.attempts).work_id(args.work_id());
    if let Some(Moment(Some(at))) = args.at {
        request = request.at(at);
    }
    if let Some(early) = args.early {
        request = request.early(early);
    }
    // This program kills its command itself.
    Ok(request.stop_grace(Duration::MAX))
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
