//! The command, as `run` sees it: through its watchdog.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, IsTerminal, stdin},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream as StdUnixStream, process::CommandExt},
    },
    process::{Child, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    net::UnixStream,
    time::{Instant, sleep, timeout},
};

use super::{
    args::RunArgs,
    clock::KILL_AGAIN,
    messages::{Order, Report, Sender, send_descriptor},
    processes::{Group, descendants},
    start::{passed_on, this_program},
    watchdog::{self, WatchOptions},
};
use crate::output::say;

/// Interval between messages about processes that do not end.
pub(super) const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// The variable with the number of the slot that the command runs under.
pub(super) const SLOT_VARIABLE: &str = "REDLOCK_SLOT";
/// The variable that is `shared` if the command runs under a shared lock.
pub(super) const MODE_VARIABLE: &str = "REDLOCK_MODE";
/// Time for the watchdog to kill the command if the lock is not about to end.
const REPORT_TIMEOUT: Duration = Duration::from_millis(500);

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

impl WatchedCommand {
    /// Starts the watchdog, and waits until it is ready.
    pub(super) async fn prepare(args: &RunArgs) -> io::Result<Self> {
        let others = descendants(&[]);
        // This process adopts what survives the watchdog.
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let (ours, theirs) = StdUnixStream::pair()?;
        // A terminal's signals, and reads from it, are for its foreground group.
        let shares_group = args.foreground || stdin().is_terminal();
        let options = WatchOptions {
            joins: shares_group.then(|| getpgrp().as_raw_nonzero().get()),
            stop_signal: args.stop_signal,
            leaves_daemons: args.leave_daemons,
        };
        let watchdog = this_program()?
            .arg(watchdog::ARGUMENT)
            .args(options.to_args())
            .args(&args.command)
            // Those of a `redlock run` above belong to another lock.
            .env_remove(SLOT_VARIABLE)
            .env_remove(MODE_VARIABLE)
            .envs(passed_on())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // A signal to the group of `run` must not stop it.
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
    pub(super) fn note_starting(&mut self) {
        assert_eq!(self.state, State::Idle, "the command is started once");
        self.state = State::Starting;
    }

    async fn report(&mut self) -> io::Result<Report> {
        let line = self.reports.next_line().await?;
        let line = line.ok_or_else(|| io::Error::other("the watchdog has ended"))?;
        serde_json::from_str(&line).map_err(io::Error::other)
    }

    /// Waits for a report about the command.
    ///
    /// # Cancel safety
    ///
    /// No report is lost.
    pub(super) async fn event(&mut self) -> io::Result<Report> {
        let report = self.report().await?;
        self.state = match (&report, self.state) {
            (Report::Started { pid }, State::Starting) => {
                let leader = Pid::from_raw(*pid).ok_or(io::ErrorKind::InvalidData)?;
                State::Running(Group::new(leader, !self.shares_group))
            }
            (Report::FirstEnded { .. }, State::Running(group)) => {
                State::Running(group.without_leader())
            }
            (Report::NotStarted { .. }, State::Starting) | (Report::Gone, State::Running(_)) => {
                State::Gone
            }
            _ => return Err(unexpected(&report)),
        };
        Ok(report)
    }

    /// Kills the command: by the watchdog, and its group from here as well, as the watchdog may be
    /// suspended.
    pub(super) fn kill(&self) {
        // An ended watchdog is reported when its socket is read.
        let _ = self.orders.send(&Order::Kill);
        if let State::Running(group) = self.state {
            group.signal(Signal::KILL);
        }
    }

    /// Kills a watchdog that does not do its work: this process adopts its children, and
    /// [`event`](Self::event) fails.
    pub(super) fn kill_watchdog(&mut self) {
        // It may have ended.
        let _ = self.watchdog.kill();
    }

    /// Kills the processes of the command, and returns when none is left. Prints a line from time to time
    /// while processes can't be killed.
    pub(super) async fn kill_all(&mut self) {
        while matches!(self.state, State::Starting | State::Running(_)) {
            self.kill();
            match timeout(REPORT_TIMEOUT, self.event()).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => self.kill_without_watchdog().await,
                Err(_) => self.kill_watchdog(),
            }
        }
    }

    /// Kills the descendants of this process, which has adopted the children of its watchdog.
    async fn kill_without_watchdog(&mut self) {
        let (begun, mut told, mut none) = (Instant::now(), Instant::now(), 0);
        // Again after none was found: a process may have started another meanwhile.
        while none < 3 {
            if let State::Running(group) = self.state {
                group.signal(Signal::KILL);
            }
            let left = descendants(&self.others);
            for process in &left {
                let _ = kill_process(*process, Signal::KILL);
            }
            none = if left.is_empty() { none + 1 } else { 0 };
            if told.elapsed() >= PROGRESS_INTERVAL {
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

impl Drop for WatchedCommand {
    /// Ends the watchdog unless it watches processes: then it notices the end of this one.
    fn drop(&mut self) {
        if matches!(self.state, State::Idle | State::Gone) {
            let _ = self.watchdog.kill();
            let _ = self.watchdog.wait();
        }
    }
}

/// Returns the command as messages have it.
pub(super) fn shown(command: &[OsString]) -> String {
    command.first().map_or_else(String::new, |first| first.display().to_string())
}
