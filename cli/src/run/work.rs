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

/// Runs the command under the lock of this context, until no process of it is left.
///
/// # Cancel safety
///
/// Dropping the future leaves the command to [`WatchedCommand::kill_all`].
pub(super) async fn work(
    args: &RunArgs,
    environment: Vec<(String, String)>,
    signals: &Signals,
    command: &mut WatchedCommand,
    context: LockContext,
) -> Ended {
    // Read first: the lock does not end before what is left from then.
    let now = clock::now();
    let start = Order::Start { lock_ends: now + context.remaining(), environment };
    match signals.start_command(command.orders().clone(), command.shares_group(), &start) {
        Err(signal) => return Ended::Interrupted(signal),
        Ok(Err(error)) => return Ended::NotStarted(error),
        Ok(Ok(())) => command.note_starting(),
    }
    let ended = watch(args, signals, command, context).await;
    signals.end_command();
    ended
}

async fn watch(
    args: &RunArgs,
    signals: &Signals,
    command: &mut WatchedCommand,
    context: LockContext,
) -> Ended {
    let (mut stop, mut status) = (None::<Stop>, None);
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
        let told = command.orders().send(&Order::LockEnds(now + left));
        let kill_in = left.saturating_sub(KILL_MARGIN);
        let kill_in = stop.as_ref().map_or(kill_in, |stop| kill_in.min(stop.kill_in(args)));
        if kill_in.is_zero() {
            stop.get_or_insert_with(Stop::now);
            command.kill();
        }
        let pause = if kill_in.is_zero() { KILL_AGAIN } else { kill_in.min(LOOK) };
        let event = tokio::select! {
            biased;
            event = command.event() => event.and_then(|event| told.map(|()| event)),
            () = context.stopping(), if stop.is_none() => {
                stop = Some(Stop::now());
                let orders = command.orders();
                // A process that is suspended handles no signal.
                let sent = [args.stop_signal, Signal::CONT].map(|signal| {
                    orders.send(&Order::Signal(signal.as_raw()))
                });
                match sent.into_iter().find_map(Result::err) {
                    None => continue,
                    Some(error) => Err(error),
                }
            }
            _ = signals.hurried(), if status.is_some() && !is_impatient => {
                is_impatient = true;
                left_since = Instant::now();
                command.kill();
                continue;
            }
            () = sleep(pause) => match told {
                Ok(()) => continue,
                Err(error) => Err(error),
            },
        };
        match event {
            Ok(Event::Started) => {}
            Ok(Event::NotStarted(error)) => return Ended::NotStarted(error),
            Ok(Event::FirstEnded { status: of, killed }) => {
                if killed {
                    stop.get_or_insert_with(Stop::now);
                }
                // Signals end the wait for what is left.
                signals.end_command();
                (status, left_since) = (Some(of), Instant::now());
            }
            Ok(Event::Gone) => break,
            Err(error) => {
                // Under the lock, which is not released before nothing is left.
                command.kill_all().await;
                return Ended::Unwatched(error);
            }
        }
    }
    match status {
        Some(status) if stop.is_none() => Ended::Itself(status),
        _ => Ended::Stopped,
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
