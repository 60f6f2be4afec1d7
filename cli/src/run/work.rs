//! The work under the lock: the command, from its start to the end of all its processes.

use std::{fmt, io, process::ExitStatus, time::Duration};

use rustix::process::Signal;
use tokio::time::{Instant, sleep};
use tower_redlock::LockContext;

use super::{
    KILL_MARGIN,
    args::RunArgs,
    clock,
    command::{Event, TELL, WatchedCommand},
    messages::Order,
    signals::Signals,
};
use crate::output::say;

/// Maximum time between looks at the lock's remaining validity.
const LOOK: Duration = Duration::from_millis(100);
/// Time for the watchdog to kill the command, where the lock is about to end.
const WATCHDOG_PATIENCE: Duration = Duration::from_millis(20);
/// Time for the command to end after somebody requested that, without `--kill-after`.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Interval between attempts to kill the command.
const KILL_AGAIN: Duration = Duration::from_millis(5);

/// How the command ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By itself, or by a signal that was forwarded.
    Itself(ExitStatus),
    /// Stopped, as the lock ended.
    Stopped,
    /// Its first process has ended, others can't be killed, and a signal ended the wait for them.
    Left,
    /// Killed, as it could not be watched any more.
    Unwatched(io::Error),
    /// Not started: a signal came before.
    Interrupted(Signal),
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
            Self::Left => f.write_str("processes of the command are left, which can't be killed"),
            Self::Unwatched(error) => write!(f, "the command was killed: {error}"),
            Self::Interrupted(_) => f.write_str("a signal came before the command was started"),
            Self::NotStarted(error) => write!(f, "the command was not started: {error}"),
        }
    }
}

/// How the command is run under the lock.
pub(super) struct Work<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) signals: &'a Signals,
    /// Whether somebody requested the stop of this run.
    pub(super) is_stopped: &'a dyn Fn() -> bool,
}

impl Work<'_> {
    /// Runs the command under the lock of this context, until no process of it is left.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the command to [`WatchedCommand::kill_all`].
    pub(super) async fn run(
        &self,
        environment: Vec<(String, String)>,
        command: &mut WatchedCommand,
        context: LockContext,
    ) -> Ended {
        let signals = self.signals;
        // Read first: the lock does not end before what is left from then.
        let now = clock::now();
        let left = context.remaining();
        if left <= KILL_MARGIN {
            return Ended::NotStarted(io::Error::other("the lock is about to end"));
        }
        let start = Order::Start { lock_ends: now + left, environment };
        match signals.start_command(command.orders().clone(), &start) {
            Err(signal) => return Ended::Interrupted(signal),
            Ok(Err(error)) => return Ended::NotStarted(error),
            Ok(Ok(())) => command.note_starting(),
        }
        let ended = self.watch(command, context).await;
        signals.end_command();
        ended
    }

    async fn watch(&self, command: &mut WatchedCommand, context: LockContext) -> Ended {
        let Self { args, signals, .. } = *self;
        let (mut stop, mut status, mut was_stopped) = (None::<Stop>, None, false);
        let mut kill_since: Option<Instant> = None;
        // For how long processes are left behind the first one, and whether a signal came since.
        let mut left_since = Instant::now();
        let mut is_impatient = false;
        loop {
            if status.is_some() && left_since.elapsed() >= TELL {
                if is_impatient {
                    return Ended::Left;
                }
                say(
                    "redlock: processes of the command are left, and can't be killed; the lock is kept",
                );
                left_since = Instant::now();
            }
            let now = clock::now();
            let left = context.remaining();
            match command.orders().send(&Order::LockEnds(now + left)) {
                // It has not read for some hundred messages.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => command.kill_watchdog(),
                // Where it has ended, what it reported before is read first.
                Ok(()) | Err(_) => {}
            }
            let kill_in = left.saturating_sub(KILL_MARGIN);
            let kill_in = stop.as_ref().map_or(kill_in, |stop| kill_in.min(stop.kill_in()));
            if kill_in.is_zero() {
                stop.get_or_insert_with(|| Stop::now(args.kill_after));
                command.kill();
                // Suspended, it kills nothing outside of the group.
                if kill_since.get_or_insert_with(Instant::now).elapsed() >= WATCHDOG_PATIENCE {
                    command.kill_watchdog();
                }
            }
            let pause = if kill_in.is_zero() { KILL_AGAIN } else { kill_in.min(LOOK) };
            let event = tokio::select! {
                biased;
                event = command.event() => event,
                () = context.stopping(), if stop.is_none() => {
                    let limit = (self.is_stopped)().then_some(STOP_GRACE);
                    stop = Some(Stop::now(args.kill_after.or(limit)));
                    // A process that is suspended handles no signal.
                    for signal in [args.stop_signal, Signal::CONT] {
                        let _ = command.orders().send(&Order::Signal(signal.as_raw()));
                    }
                    continue;
                }
                _ = signals.hurried(), if status.is_some() && !is_impatient => {
                    is_impatient = true;
                    left_since = Instant::now();
                    command.kill();
                    continue;
                }
                () = sleep(pause) => continue,
            };
            match event {
                Ok(Event::Started) => signals.note_started(!command.shares_group()),
                Ok(Event::NotStarted(error)) => return Ended::NotStarted(error),
                Ok(Event::FirstEnded { status: of, killed }) => {
                    // Signals end the wait for what is left.
                    signals.end_command();
                    was_stopped = stop.is_some() || killed;
                    (status, left_since) = (Some(of), Instant::now());
                }
                Ok(Event::Gone) => break,
                Err(error) => {
                    signals.end_command();
                    // Under the lock, which is not released before nothing is left, but for a signal.
                    tokio::select! {
                        biased;
                        () = command.kill_all() => {}
                        _ = signals.hurried() => {}
                    }
                    match status {
                        Some(status) if !was_stopped => return Ended::Itself(status),
                        _ if stop.is_some() => return Ended::Stopped,
                        _ => return Ended::Unwatched(error),
                    }
                }
            }
        }
        match status {
            Some(status) if !was_stopped => Ended::Itself(status),
            _ => Ended::Stopped,
        }
    }
}

/// The request to stop.
struct Stop {
    at: Instant,
    kill_after: Option<Duration>,
}

impl Stop {
    fn now(kill_after: Option<Duration>) -> Self {
        Self { at: Instant::now(), kill_after }
    }

    /// Returns the time until the command is killed, though the lock does not end.
    fn kill_in(&self) -> Duration {
        self.kill_after.map_or(Duration::MAX, |after| after.saturating_sub(self.at.elapsed()))
    }
}
