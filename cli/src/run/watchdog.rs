//! The process beside `run` that starts the command, and ends it even if `run` was killed or suspended.
//!
//! It is the parent of the command, and on Linux it adopts the command's orphans: once it has no children,
//! no process of the command is left, in whatever groups and sessions.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream as StdUnixStream, process::CommandExt},
    },
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use futures_util::FutureExt as _;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpid, wait},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use super::{
    clock::{KILL_AGAIN, LockEnd},
    messages::{Order, Report, Sender, receive_descriptor},
    processes::Group,
    signals::{FORWARDED, terminates},
    start::{self, this_program},
};
use crate::signals::{Signals, is_ignored};

/// The argument that makes this program a watchdog. The next ones: the process group of the command, or 0
/// for one of its own; the stop signal; 1 to leave the command's leftovers running, else 0; the command and
/// its arguments.
pub(super) const ARGUMENT: &str = "__watchdog";

/// Maximum time between checks of the clock: timers do not count the time for which a machine is
/// suspended, while the clock does.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Time for the command's leftovers to end by themselves.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);

/// The main function of the watchdog.
pub(super) fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    // One thread, which outlives the command: this ends with the thread that started it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let watched =
        runtime.and_then(|runtime| runtime.block_on(async { Watch::new(args)?.watch().await }));
    if watched.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A watchdog.
struct Watch {
    launch: Launch,
    orders: Lines<BufReader<UnixStream>>,
    reports: Sender,
    /// `None` before the command is started.
    command: Option<Running>,
}

/// How the command is started, and how its leftovers end.
struct Launch {
    command: Vec<OsString>,
    /// The standard input of the command.
    stdin: Option<OwnedFd>,
    options: WatchOptions,
}

/// What `run` passes to the watchdog, as arguments before those of the command.
#[derive(Clone, Copy, Debug)]
pub(super) struct WatchOptions {
    /// The process group that the command joins; by default one of its own.
    pub(super) joins: Option<i32>,
    pub(super) stop_signal: Signal,
    pub(super) leaves_daemons: bool,
}

impl WatchOptions {
    pub(super) fn to_args(self) -> [String; 3] {
        let joins = self.joins.unwrap_or(0);
        [joins, self.stop_signal.as_raw(), self.leaves_daemons.into()]
            .map(|number| number.to_string())
    }

    fn parse(args: &mut impl Iterator<Item = OsString>) -> Option<Self> {
        let mut number = || args.next()?.to_str()?.parse::<i32>().ok();
        Some(Self {
            joins: Some(number()?).filter(|group| *group > 0),
            stop_signal: Signal::from_named_raw(number()?)?,
            leaves_daemons: number()? == 1,
        })
    }
}

/// The processes of the command.
struct Running {
    group: Group,
    lock_end: LockEnd,
    /// When the first process ended.
    first_ended: Option<Instant>,
    /// SIGKILL was sent, and is sent again until no process is left.
    is_killed: bool,
}

impl Watch {
    fn new(mut args: impl Iterator<Item = OsString>) -> io::Result<Self> {
        let options = WatchOptions::parse(&mut args).ok_or(io::ErrorKind::InvalidInput)?;
        let socket = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let launch =
            Launch { command: args.collect(), stdin: Some(receive_descriptor(&socket)?), options };
        // The command's orphans are adopted from now on.
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(getpid()))?;
        let reports = Sender::new(&socket)?;
        socket.set_nonblocking(true)?;
        let orders = BufReader::new(UnixStream::from_std(socket)?).lines();
        Ok(Self { launch, orders, reports, command: None })
    }

    /// Follows orders until no process of the command is left, or `run` has ended before it was started.
    async fn watch(mut self) -> io::Result<()> {
        // With a handler, the kernel leaves children to be reaped here even if the signal was ignored.
        let mut ended = signal(SignalKind::child())?;
        // A signal to all processes of a service must not end the one that lets them end in time.
        let _survived = Signals::new(FORWARDED.into_iter().filter(|signal| !is_ignored(*signal)))?;
        self.reports.send(&Report::Ready)?;
        loop {
            // All orders are read before the clock is checked: a later order may prolong the lock.
            while let Some(line) = self.orders.next_line().now_or_never() {
                match (line, &mut self.command) {
                    (Ok(Some(line)), _) => self.follow(&line)?,
                    // `run` was killed.
                    (Ok(None) | Err(_), None) => return Ok(()),
                    (Ok(None) | Err(_), Some(command)) => {
                        command.kill();
                        break;
                    }
                }
            }
            if !self.reap() {
                // A killed `run` does not read it.
                let _ = self.reports.send(&Report::Gone);
                return Ok(());
            }
            let pause = self.command.as_mut().map_or(CHECK_INTERVAL, Running::kill_if_due);
            if self.command.as_ref().is_some_and(|command| command.is_killed) {
                // The end of the orders, if it was reached, would be read again at once.
                sleep(pause).await;
                continue;
            }
            tokio::select! {
                biased;
                // The end of the orders is read again above.
                line = self.orders.next_line() => if let Ok(Some(line)) = line {
                    self.follow(&line)?;
                },
                _ = ended.recv() => {}
                () = sleep(pause) => {}
            }
        }
    }

    fn follow(&mut self, line: &str) -> io::Result<()> {
        let order = serde_json::from_str(line).map_err(io::Error::other)?;
        match (order, &mut self.command) {
            (Order::Start { lock_end, environment }, None) => {
                let report = match self.launch.start(lock_end, &environment) {
                    Ok(group) => {
                        let (first_ended, is_killed) = (None, false);
                        let pid = group.leader().as_raw_nonzero().get();
                        self.command = Some(Running { group, lock_end, first_ended, is_killed });
                        Report::Started { pid }
                    }
                    Err(error) => Report::NotStarted { error: error.to_string() },
                };
                // If `run` was killed, the end of its orders ends the command.
                let _ = self.reports.send(&report);
            }
            (Order::LockEnds(at), Some(command)) => command.lock_end = at,
            (Order::Kill, Some(command)) => command.kill(),
            (Order::Signal(number), Some(command)) => match Signal::from_named_raw(number) {
                Some(signal) if command.first_ended.is_none() => command.group.signal(signal),
                // The user does not want to wait for what is left.
                Some(signal) if terminates(signal) => command.kill(),
                _ => {}
            },
            // The command was not started, or is started already.
            _ => {}
        }
        Ok(())
    }

    /// Reaps processes that have ended. Returns whether there is something to watch.
    fn reap(&mut self) -> bool {
        let Some(command) = &mut self.command else { return true };
        loop {
            let is_left = match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if command.first_ended.is_none() && pid == command.group.leader() {
                        command.first_ended = Some(Instant::now());
                        command.group = command.group.without_leader();
                        let (status, killed) = (status.as_raw(), command.is_killed);
                        let _ = self.reports.send(&Report::FirstEnded { status, killed });
                        if !command.is_released(&self.launch) {
                            command.group.signal_all(self.launch.options.stop_signal);
                            command.group.signal_all(Signal::CONT);
                        }
                    }
                    continue;
                }
                Err(Errno::INTR) => continue,
                Ok(None) => true,
                Err(_) => command.group.is_left(),
            };
            return is_left && !command.is_released(&self.launch);
        }
    }
}

impl Launch {
    fn start(&mut self, end: LockEnd, environment: &[(String, String)]) -> io::Result<Group> {
        // Much time may have passed since the order was given.
        if end.kill_in().is_zero() {
            return Err(io::Error::other("the lock has ended, or is about to"));
        }
        let mut command: Command = this_program()?;
        command.arg(start::ARGUMENT).arg(getpid().as_raw_nonzero().to_string());
        command.args(&self.command);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.process_group(self.options.joins.unwrap_or(0));
        if let Some(stdin) = self.stdin.take() {
            command.stdin(Stdio::from(stdin));
        }
        let child = command.spawn()?;
        Ok(Group::new(Pid::from_child(&child), self.options.joins.is_none()))
    }
}

impl Running {
    /// Returns whether the processes that are left are no longer part of the command.
    const fn is_released(&self, launch: &Launch) -> bool {
        launch.options.leaves_daemons && self.first_ended.is_some() && !self.is_killed
    }

    fn kill(&mut self) {
        self.is_killed = true;
        self.group.signal_all(Signal::KILL);
    }

    /// Kills the command if it is due. Returns the time until the next check.
    fn kill_if_due(&mut self) -> Duration {
        let grace = |at: Instant| LEFTOVER_GRACE.saturating_sub(at.elapsed());
        let kill_in = self.lock_end.kill_in().min(self.first_ended.map_or(Duration::MAX, grace));
        if self.is_killed || kill_in.is_zero() {
            self.kill();
            return KILL_AGAIN;
        }
        kill_in.min(CHECK_INTERVAL)
    }
}
