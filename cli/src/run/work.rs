//! The work under the lock: the command, from its start to the end of all its processes.

use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use rustix::process::Signal;
use tokio::time::{Instant, sleep};
use tower_redlock::LockContext;

use super::{
    args::RunArgs,
    clock::{KILL_AGAIN, LockEnd},
    command::{PROGRESS_INTERVAL, WatchedCommand},
    ended::Ended,
    messages::{Order, Report},
    signals::SignalRouter,
};
use crate::output::say;

/// Maximum time between checks of the lock's remaining validity.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Time for the watchdog to kill the command when the lock is about to end.
const WATCHDOG_GRACE: Duration = Duration::from_millis(20);
/// Time for the command to end after a request to stop the run, without `--kill-after`.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// How the command is run under the lock.
pub(super) struct Work<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) signals: &'a SignalRouter,
    /// Returns whether a stop of this run was requested.
    pub(super) is_stopped: &'a dyn Fn() -> bool,
}

/// A request to the command to stop.
struct Stop {
    at: Instant,
    kill_after: Option<Duration>,
}

/// What is left after the command's first process has ended.
struct Leftover {
    ended: Ended,
    /// The start of the present wait for other processes.
    since: Instant,
    /// A signal has requested the end of the wait.
    is_hurried: bool,
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
        let lock_end = LockEnd::of(|| context.remaining());
        if lock_end.kill_in().is_zero() {
            return Ended::NotStarted(io::Error::other("the lock is about to end"));
        }
        let start = Order::Start { lock_end, environment };
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
        let mut stop: Option<Stop> = None;
        let mut kill_since: Option<Instant> = None;
        let mut leftover: Option<Leftover> = None;
        loop {
            if let Some(left) = &mut leftover
                && left.since.elapsed() >= PROGRESS_INTERVAL
            {
                if left.is_hurried {
                    return Ended::Left;
                }
                say(
                    "redlock: processes of the command are left, and can't be killed; the lock is kept",
                );
                left.since = Instant::now();
            }
            let lock_end = LockEnd::of(|| context.remaining());
            match command.orders().send(&Order::LockEnds(lock_end)) {
                // The watchdog has not read for some hundred messages.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => command.kill_watchdog(),
                // Reports of a watchdog that has ended are read first.
                Ok(()) | Err(_) => {}
            }
            let kill_in =
                stop.as_ref().map_or(Duration::MAX, Stop::kill_in).min(lock_end.kill_in());
            if kill_in.is_zero() {
                stop.get_or_insert_with(|| Stop::now(args.kill_after));
                command.kill();
                // A suspended watchdog kills nothing outside of the group.
                if kill_since.get_or_insert_with(Instant::now).elapsed() >= WATCHDOG_GRACE {
                    command.kill_watchdog();
                }
            }
            let pause = if kill_in.is_zero() { KILL_AGAIN } else { kill_in.min(CHECK_INTERVAL) };
            let report = tokio::select! {
                biased;
                report = command.event() => report,
                () = context.stopping(), if stop.is_none() => {
                    let limit = (self.is_stopped)().then_some(STOP_GRACE);
                    stop = Some(Stop::now(args.kill_after.or(limit)));
                    // A process that is suspended handles no signal.
                    for signal in [args.stop_signal, Signal::CONT] {
                        let _ = command.orders().send(&Order::Signal(signal.as_raw()));
                    }
                    continue;
                }
                _ = signals.hurried(), if leftover.as_ref().is_some_and(|left| !left.is_hurried) => {
                    if let Some(left) = &mut leftover {
                        (left.is_hurried, left.since) = (true, Instant::now());
                    }
                    command.kill();
                    continue;
                }
                () = sleep(pause) => continue,
            };
            match report {
                Ok(Report::Started { .. }) => signals.note_started(!command.shares_group()),
                Ok(Report::NotStarted { error }) => {
                    return Ended::NotStarted(io::Error::other(error));
                }
                Ok(Report::FirstEnded { status, killed }) => {
                    // From now on signals end the wait for what is left.
                    signals.end_command();
                    let was_stopped = stop.is_some() || killed;
                    let itself = Ended::Itself(ExitStatus::from_raw(status));
                    let ended = if was_stopped { Ended::Stopped } else { itself };
                    assert!(leftover.is_none(), "the first process ends once");
                    leftover = Some(Leftover { ended, since: Instant::now(), is_hurried: false });
                }
                // Without a first end, the watchdog was ordered to kill the command.
                Ok(_) => return leftover.map_or(Ended::Stopped, |left| left.ended),
                Err(error) => {
                    signals.end_command();
                    // The lock is released once no process is left, or after a signal.
                    tokio::select! {
                        biased;
                        () = command.kill_all() => {}
                        _ = signals.hurried() => {}
                    }
                    return match leftover {
                        Some(left) => left.ended,
                        None if stop.is_some() => Ended::Stopped,
                        None => Ended::Unwatched(error),
                    };
                }
            }
        }
    }
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
