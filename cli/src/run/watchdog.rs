//! The process beside `run` that starts the command, and ends it also where `run` itself can't: it was
//! killed or suspended.
//!
//! It is the parent of the command, and on Linux it adopts the command's orphans: so once it has no
//! children, no process of the command is left, whatever groups and sessions these made.

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
    process::{Pid, Signal, WaitOptions, WaitStatus, getpid, wait},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use super::{
    KILL_MARGIN, clock,
    group::Group,
    messages::{Order, Report, Sender, receive_descriptor},
    signals, start, this_program,
};
use crate::signals::is_ignored;

/// The argument that makes this program a watchdog. The next ones: the process group of the command, or 0
/// for one of its own; the stop signal; 1 if what the command leaves behind runs on, else 0; the command and
/// its arguments.
pub(super) const ARGUMENT: &str = "__watchdog";

/// Maximum time between looks at the clock: timers do not count the time for which a machine is
/// suspended, while the clock does.
const LOOK: Duration = Duration::from_millis(50);
/// Interval between signals to processes that are being killed.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// How long what the command left behind has to end by itself.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);

/// The main function of the watchdog.
pub(super) fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    // One thread, which outlives the command: this ends with the thread that started it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let watched =
        runtime.and_then(|runtime| runtime.block_on(async { Watch::new(args)?.watch().await }));
    if watched.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Watch {
    command: Vec<OsString>,
    /// The standard input of the command.
    stdin: Option<OwnedFd>,
    /// The process group that the command joins.
    joins: Option<i32>,
    stop_signal: Signal,
    leaves_daemons: bool,
    orders: Lines<BufReader<UnixStream>>,
    reports: Sender,
    /// When the lock ends, by [`clock::now`].
    lock_ends: Option<Duration>,
    group: Option<Group>,
    first_ended: Option<Instant>,
    /// Everything is to be killed.
    kills: bool,
    /// SIGKILL was sent.
    has_killed: bool,
}

impl Watch {
    fn new(mut args: impl Iterator<Item = OsString>) -> io::Result<Self> {
        let mut number = || args.next()?.to_str()?.parse::<i32>().ok();
        let (joins, stop_signal) = (number(), number().and_then(Signal::from_named_raw));
        let (Some(joins), Some(stop_signal), Some(leaves)) = (joins, stop_signal, number()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let socket = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let stdin = receive_descriptor(&socket)?;
        // The command's orphans are adopted from now on.
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(getpid()))?;
        let reports = Sender::new(&socket)?;
        socket.set_nonblocking(true)?;
        let orders = BufReader::new(UnixStream::from_std(socket)?).lines();
        Ok(Self {
            command: args.collect(),
            stdin: Some(stdin),
            joins: Some(joins).filter(|group| *group > 0),
            stop_signal,
            leaves_daemons: leaves == 1,
            orders,
            reports,
            lock_ends: None,
            group: None,
            first_ended: None,
            kills: false,
            has_killed: false,
        })
    }

    /// Obeys orders until the command is gone, or there is nobody to run it for.
    async fn watch(mut self) -> io::Result<()> {
        // Otherwise the kernel reaps children itself where this signal is ignored.
        let mut ended = signal(SignalKind::child())?;
        // What is sent to all processes of a service must not end the one that lets them end in time.
        let _survived: Vec<_> = signals::FORWARDED
            .into_iter()
            .filter(|of| !is_ignored(*of))
            .map(|of| signal(SignalKind::from_raw(of.as_raw())))
            .collect::<io::Result<_>>()?;
        self.reports.send(&Report::Ready)?;
        loop {
            // All orders are read before the clock is judged: newer ones may be behind an older end.
            while let Some(line) = self.orders.next_line().now_or_never() {
                match line {
                    Ok(Some(line)) => self.obey(&line)?,
                    // `run` was killed.
                    Ok(None) | Err(_) if self.group.is_none() => return Ok(()),
                    Ok(None) | Err(_) => {
                        self.kills = true;
                        break;
                    }
                }
            }
            if let Some(group) = self.group
                && !self.reap(group)
            {
                // Where `run` was killed, nobody reads it.
                let _ = self.reports.send(&Report::Gone);
                return Ok(());
            }
            let pause = self.act();
            if self.kills {
                // Orders may be at their end, which is always there to be read.
                sleep(pause).await;
                continue;
            }
            tokio::select! {
                biased;
                // The end is there to be read again.
                line = self.orders.next_line() => if let Ok(Some(line)) = line {
                    self.obey(&line)?;
                },
                _ = ended.recv() => {}
                () = sleep(pause) => {}
            }
        }
    }

    fn obey(&mut self, line: &str) -> io::Result<()> {
        match serde_json::from_str(line).map_err(io::Error::other)? {
            Order::Start { lock_ends, environment } => {
                self.lock_ends = Some(lock_ends);
                // It may be long since the order was given.
                let is_late = self.kills || self.time_left().is_zero();
                let started = if is_late {
                    Err(io::Error::other("the lock has ended, or is about to"))
                } else {
                    self.start(&environment)
                };
                let report = match started {
                    Ok(group) => {
                        self.group = Some(group);
                        Report::Started { pid: group.leader().as_raw_nonzero().get() }
                    }
                    Err(error) => Report::NotStarted { error: error.to_string() },
                };
                // Where `run` was killed, the end of its orders says so, and ends the command.
                let _ = self.reports.send(&report);
            }
            Order::LockEnds(at) => self.lock_ends = Some(at),
            Order::Signal(number) => {
                let signal = Signal::from_named_raw(number);
                if let (Some(group), Some(signal)) = (self.group, signal) {
                    match self.first_ended {
                        None => group.signal(signal),
                        // The user does not want to wait for what is left.
                        Some(_) => self.kills |= signals::terminates(signal),
                    }
                }
            }
            Order::Kill => self.kills = true,
        }
        Ok(())
    }

    fn start(&mut self, environment: &[(String, String)]) -> io::Result<Group> {
        let mut command: Command = this_program()?;
        command.arg(start::ARGUMENT).arg(getpid().as_raw_nonzero().to_string());
        command.args(&self.command);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.process_group(self.joins.unwrap_or(0));
        if let Some(stdin) = self.stdin.take() {
            command.stdin(Stdio::from(stdin));
        }
        let child = command.spawn()?;
        Ok(Group::new(Pid::from_child(&child), self.joins.is_none()))
    }

    /// Reaps what has ended. Returns whether a process of the command is left.
    fn reap(&mut self, group: Group) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == group.leader() => {
                    self.note_first_ended(group, status);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return !self.leaves_now(),
                Err(_) => return !self.leaves_now() && self.group.is_some_and(Group::is_left),
            }
        }
    }

    /// Whether what is left of the command is no longer part of it.
    const fn leaves_now(&self) -> bool {
        self.leaves_daemons && self.first_ended.is_some() && !self.has_killed
    }

    fn note_first_ended(&mut self, group: Group, status: WaitStatus) {
        self.first_ended = Some(Instant::now());
        self.group = Some(group.without_leader());
        let _ = self
            .reports
            .send(&Report::FirstEnded { status: status.as_raw(), killed: self.has_killed });
        if !self.leaves_now() {
            group.without_leader().signal_all(self.stop_signal);
            group.without_leader().signal_all(Signal::CONT);
        }
    }

    /// Returns the time until the command is to be killed.
    fn time_left(&self) -> Duration {
        let at = self.lock_ends.map(|at| at.saturating_sub(KILL_MARGIN));
        at.map_or(Duration::ZERO, |at| at.saturating_sub(clock::now()))
    }

    /// Does what is due. Returns the time until the next look.
    fn act(&mut self) -> Duration {
        let Some(group) = self.group else { return LOOK };
        let left = self.time_left();
        let grace = self
            .first_ended
            .map_or(Duration::MAX, |at| LEFTOVER_GRACE.saturating_sub(at.elapsed()));
        let kill_in = left.min(grace);
        if self.kills || kill_in.is_zero() {
            self.has_killed = true;
            group.signal_all(Signal::KILL);
            KILL_AGAIN
        } else {
            kill_in.min(LOOK)
        }
    }
}
