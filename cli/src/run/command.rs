//! The running command: started under the lock, stopped before its end, and gone before its release.

use std::{
    ffi::OsString,
    io::{self, IsTerminal, stdin},
    process::ExitStatus,
    time::Duration,
};

use rustix::process::{Pid, Signal, getpid};
use tokio::{
    process::Child,
    time::{Instant, sleep},
};

use super::{
    KILL_MARGIN,
    args::RunArgs,
    group::{Group, LOOK},
    start,
    watchdog::Watchdog,
};

/// How long what the command left behind has to end by itself.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);

/// The processes of a command. Dropping this kills them.
pub(super) struct RunningCommand {
    child: Child,
    group: Group,
    /// Absent when the command has ended, with all that it started.
    watchdog: Option<Watchdog>,
}

impl RunningCommand {
    /// Starts the command, with these variables added to its environment.
    pub(super) fn start(
        args: &RunArgs,
        environment: &[(&str, String)],
        watchdog: Watchdog,
    ) -> io::Result<Self> {
        // A terminal's signals, and reads from it, are for its foreground group.
        let is_own = !args.foreground && !stdin().is_terminal();
        let mut command = tokio::process::Command::from(super::this_program()?);
        command.arg(start::ARGUMENT).arg(getpid().as_raw_nonzero().to_string());
        command.args(&args.command);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        if is_own {
            command.process_group(0);
        }
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let Some(pid) = pid else {
            child.start_kill()?;
            return Err(io::Error::other("the command has no process id"));
        };
        let group = Group::new(pid, is_own);
        let told = start::wait_until_stopped(pid).and_then(|()| watchdog.watch(group));
        let group = group.with_adopted(watchdog.pid());
        // Killed where the watchdog does not know of it.
        let command = Self { child, group, watchdog: Some(watchdog) };
        told?;
        group.signal(Signal::CONT);
        Ok(command)
    }

    pub(super) const fn group(&self) -> Group {
        self.group
    }

    /// Tells the watchdog when the lock ends.
    pub(super) fn lock_ends(&self, at: Duration) -> io::Result<()> {
        self.watchdog.as_ref().map_or(Ok(()), |watchdog| watchdog.lock_ends(at))
    }

    /// Waits until the command's first process has ended.
    ///
    /// # Cancel safety
    ///
    /// The next call continues.
    pub(super) async fn first_ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.group = self.group.without_leader();
        Ok(status)
    }

    /// After the first process has ended: ends what it left behind, by the signal and at last by
    /// SIGKILL. `time_left` returns for how long the lock is held still.
    pub(super) async fn end(mut self, stop_signal: Signal, time_left: impl Fn() -> Duration) {
        let (begun, mut is_asked) = (Instant::now(), false);
        while self.group.is_left() {
            if begun.elapsed() >= LEFTOVER_GRACE || time_left() <= KILL_MARGIN {
                self.group.signal_all(Signal::KILL);
            } else if !std::mem::replace(&mut is_asked, true) {
                self.group.signal_all(stop_signal);
            }
            sleep(LOOK).await;
        }
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.end();
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if self.watchdog.is_some() {
            self.group.signal_all(Signal::KILL);
        }
    }
}

/// The command as it is shown to people.
pub(super) fn shown(command: &[OsString]) -> String {
    command.first().map_or_else(String::new, |first| first.display().to_string())
}
