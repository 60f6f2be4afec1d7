//! The command, as `run` sees it: through its watchdog.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, IsTerminal, stdin},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            net::UnixStream as StdUnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{Child, ExitStatus, Stdio},
    time::Duration,
};

#[cfg(target_os = "linux")]
use rustix::process::getpid;
use rustix::process::{Pid, Signal, getpgrp, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    net::UnixStream,
    time::{Instant, sleep, timeout},
};

use super::{
    args::RunArgs,
    group::Group,
    messages::{Order, Report, Sender, send_descriptor},
    watchdog,
};
use crate::output::say;

/// Interval between messages about processes that do not end.
pub(super) const TELL: Duration = Duration::from_secs(5);
/// Time for the watchdog to kill the command, where the lock is not about to end.
const PATIENCE: Duration = Duration::from_millis(500);
/// Interval between signals to processes that are being killed.
const KILL_AGAIN: Duration = Duration::from_millis(5);

/// The command and its watchdog.
#[derive(Debug)]
pub(super) struct WatchedCommand {
    watchdog: Child,
    orders: Sender,
    reports: Lines<BufReader<UnixStream>>,
    state: State,
    /// The command is in the process group of this process.
    shares_group: bool,
    /// Children of this process that it did not start: the shell that became this program did.
    others: Vec<Pid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// The watchdog was ordered to start it.
    Starting,
    Running(Group),
    /// No process of it is left.
    Gone,
}

/// What the watchdog reports of the command.
#[derive(Debug)]
pub(super) enum Event {
    Started,
    NotStarted(io::Error),
    /// Whether it was killed for the end of the lock.
    FirstEnded {
        status: ExitStatus,
        killed: bool,
    },
    /// No process of the command is left.
    Gone,
}

impl WatchedCommand {
    /// Starts the watchdog, and waits until it is ready.
    pub(super) async fn prepare(args: &RunArgs) -> io::Result<Self> {
        let others = descendants(&[]);
        // What survives the watchdog is this process's.
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(getpid()))?;
        let (ours, theirs) = StdUnixStream::pair()?;
        // A terminal's signals, and reads from it, are for its foreground group.
        let shares_group = args.foreground || stdin().is_terminal();
        let joins = if shares_group { getpgrp().as_raw_nonzero().get() } else { 0 };
        let watchdog = super::this_program()?
            .arg(watchdog::ARGUMENT)
            .args(
                [joins, args.stop_signal.as_raw(), args.leave_daemons.into()]
                    .map(|n| n.to_string()),
            )
            .args(&args.command)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // What is sent to the group of `run` must not stop it.
            .process_group(0)
            .spawn()?;
        if args.end_with_stdin {
            send_descriptor(&ours, File::open("/dev/null")?.as_fd())?;
        } else {
            send_descriptor(&ours, stdin().as_fd())?;
        }
        let orders = Sender::new(&ours)?;
        ours.set_nonblocking(true)?;
        let reports = BufReader::new(UnixStream::from_std(ours)?).lines();
        let state = State::Idle;
        let mut this = Self { watchdog, orders, reports, state, shares_group, others };
        match this.report().await? {
            Report::Ready => Ok(this),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns what sends orders.
    pub(super) const fn orders(&self) -> &Sender {
        &self.orders
    }

    pub(super) const fn shares_group(&self) -> bool {
        self.shares_group
    }

    /// Notes that the watchdog was ordered to start the command.
    pub(super) const fn note_starting(&mut self) {
        self.state = State::Starting;
    }

    async fn report(&mut self) -> io::Result<Report> {
        let line = self.reports.next_line().await?;
        let line = line.ok_or_else(|| io::Error::other("the watchdog has ended"))?;
        serde_json::from_str(&line).map_err(io::Error::other)
    }

    /// Waits for an event.
    ///
    /// # Cancel safety
    ///
    /// No event is lost.
    pub(super) async fn event(&mut self) -> io::Result<Event> {
        match (self.report().await?, self.state) {
            (Report::Started { pid }, State::Starting) => {
                let leader = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
                self.state = State::Running(Group::new(leader, !self.shares_group));
                Ok(Event::Started)
            }
            (Report::NotStarted { error }, State::Starting) => {
                self.state = State::Gone;
                Ok(Event::NotStarted(io::Error::other(error)))
            }
            (Report::FirstEnded { status, killed }, State::Running(group)) => {
                self.state = State::Running(group.without_leader());
                Ok(Event::FirstEnded { status: ExitStatus::from_raw(status), killed })
            }
            (Report::Gone, State::Running(_)) => {
                self.state = State::Gone;
                Ok(Event::Gone)
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Kills the command: by the watchdog, and its group from here as well, as the watchdog may be
    /// suspended.
    pub(super) fn kill(&self) {
        // Where the watchdog has ended, its socket says so.
        let _ = self.orders.send(&Order::Kill);
        if let State::Running(group) = self.state {
            group.signal(Signal::KILL);
        }
    }

    /// Kills the watchdog, as it does not do what it should: then its children are this process's, and
    /// [`event`](Self::event) fails.
    pub(super) fn kill_watchdog(&mut self) {
        // It may have ended.
        let _ = self.watchdog.kill();
    }

    /// Kills what is left of the command, and returns when nothing is. As long as processes can't be
    /// killed, says so.
    pub(super) async fn kill_all(&mut self) {
        while matches!(self.state, State::Starting | State::Running(_)) {
            self.kill();
            match timeout(PATIENCE, self.event()).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => self.kill_without_watchdog().await,
                Err(_) => self.kill_watchdog(),
            }
        }
    }

    /// The watchdog has ended, and its children are this process's.
    async fn kill_without_watchdog(&mut self) {
        let (begun, mut told, mut none) = (Instant::now(), Instant::now(), 0);
        // Again after a look that found none: a process may have started another meanwhile.
        while none < 3 {
            if let State::Running(group) = self.state {
                group.signal(Signal::KILL);
            }
            let left = descendants(&self.others);
            for process in &left {
                let _ = kill_process(*process, Signal::KILL);
            }
            none = if left.is_empty() { none + 1 } else { 0 };
            if told.elapsed() >= TELL {
                told = Instant::now();
                let elapsed = begun.elapsed().as_secs();
                say(&format!("redlock: {left:?} are left after {elapsed} s of SIGKILL"));
            }
            sleep(KILL_AGAIN).await;
        }
        self.state = State::Gone;
    }
}

fn unexpected(report: &Report) -> io::Error {
    io::Error::other(format!("the watchdog reports {report:?} unexpectedly"))
}

/// Returns the living descendants of this process, but for these and theirs.
#[cfg(target_os = "linux")]
fn descendants(others: &[Pid]) -> Vec<Pid> {
    super::proc::descendants(getpid(), others)
}

#[cfg(not(target_os = "linux"))]
const fn descendants(_: &[Pid]) -> Vec<Pid> {
    Vec::new()
}

impl Drop for WatchedCommand {
    /// Ends the watchdog if nothing is left that it watches; otherwise it notices that it is alone.
    fn drop(&mut self) {
        if matches!(self.state, State::Idle | State::Gone) {
            let _ = self.watchdog.kill();
            let _ = self.watchdog.wait();
        }
    }
}

/// The command as it is shown to people.
pub(super) fn shown(command: &[OsString]) -> String {
    command.first().map_or_else(String::new, |first| first.display().to_string())
}
