//! The work under the lock: the command, from its start to the end of all its processes.

use std::{fmt, io, process::ExitStatus, time::Duration};

use rustix::process::Signal;
use tokio::time::{Instant, sleep};
use tower_redlock::LockContext;

use super::{
    KILL_MARGIN,
    args::RunArgs,
    command::RunningCommand,
    signals::Signals,
    watchdog::{self, Watchdog},
};

/// Maximum time between looks at the lock's remaining validity.
const LOOK: Duration = Duration::from_millis(100);

/// How the command ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By itself, or by a signal that was forwarded.
    Itself(ExitStatus),
    /// Stopped, as the lock ended.
    Stopped,
    /// Killed, as it could not be watched any more.
    Unwatched(io::Error),
    /// Not started: a signal came before.
    Interrupted,
    /// Not started: the operating system refused.
    NotStarted(io::Error),
}

impl Ended {
    /// Whether the command succeeded.
    pub(super) fn into_result(self) -> Result<Self, Self> {
        let is_success = matches!(&self, Self::Itself(status) if status.success());
        if is_success { Ok(self) } else { Err(self) }
    }
}

/// What the history of a job has as the error of a failed run.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Itself(status) => write!(f, "the command ended with {status}"),
            Self::Stopped => f.write_str("the command was stopped, as the lock was about to end"),
            Self::Unwatched(error) => write!(f, "the command was killed: {error}"),
            Self::Interrupted => f.write_str("a signal came before the command was started"),
            Self::NotStarted(error) => write!(f, "the command was not started: {error}"),
        }
    }
}

/// Runs the command under the lock of this context.
///
/// # Cancel safety
///
/// Dropping the future kills the command.
pub(super) async fn work(
    args: &RunArgs,
    environment: &[(&str, String)],
    signals: &Signals,
    watchdog: Watchdog,
    context: LockContext,
) -> Ended {
    let started = signals.start_command(|| RunningCommand::start(args, environment, watchdog));
    let mut command = match started {
        None => return Ended::Interrupted,
        Some(Err(error)) => return Ended::NotStarted(error),
        Some(Ok(command)) => command,
    };
    let mut stop: Option<Stop> = None;
    let status = loop {
        // Read first: the lock does not end before what is left from then.
        let now = watchdog::now();
        let left = context.remaining();
        if let Err(error) = command.lock_ends(now + left) {
            drop(command);
            return Ended::Unwatched(error);
        }
        let kill_in = left.saturating_sub(KILL_MARGIN);
        let kill_in = stop.as_ref().map_or(kill_in, |stop| kill_in.min(stop.kill_in(args)));
        if kill_in.is_zero() {
            stop.get_or_insert_with(Stop::now);
            command.group().signal_all(Signal::KILL);
        }
        let pause = if kill_in.is_zero() { Duration::from_millis(2) } else { kill_in.min(LOOK) };
        tokio::select! {
            biased;
            status = command.first_ended() => break status,
            () = context.stopping(), if stop.is_none() => {
                stop = Some(Stop::now());
                command.group().signal(args.stop_signal);
                // A process that is suspended handles no signal.
                command.group().signal(Signal::CONT);
            }
            () = sleep(pause) => {}
        }
    };
    signals.end_command();
    command.end(args.stop_signal, || context.remaining()).await;
    match status {
        _ if stop.is_some() => Ended::Stopped,
        Ok(status) => Ended::Itself(status),
        Err(error) => Ended::Unwatched(error),
    }
}

/// The request to stop.
struct Stop {
    at: Instant,
}

impl Stop {
    fn now() -> Self {
        Self { at: Instant::now() }
    }

    /// Returns the time until the command is killed by `--kill-after`.
    fn kill_in(&self, args: &RunArgs) -> Duration {
        args.kill_after.map_or(Duration::MAX, |after| after.saturating_sub(self.at.elapsed()))
    }
}
