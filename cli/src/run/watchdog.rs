//! A process beside `run` that kills the command where `run` itself can't: it was killed or suspended.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{self, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal},
    time::{ClockId, clock_gettime},
};

use super::{KILL_MARGIN, group::Group};

/// The argument that makes this program a watchdog.
pub(super) const ARGUMENT: &str = "__watchdog";

/// Maximum time between looks at the clock: timers do not count the time for which a machine is
/// suspended, while the clock does.
const LOOK: Duration = Duration::from_millis(50);

/// Returns the time since the machine's start, suspended time included; all processes see the same.
pub(super) fn now() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// The watchdog's side of `run`. Where this is dropped, or its process ends, the watchdog kills the
/// command.
pub(super) struct Watchdog {
    process: process::Child,
    pipe: OwnedFd,
}

impl Watchdog {
    /// Starts the watchdog, and waits until it watches.
    pub(super) fn start() -> io::Result<Self> {
        let mut process = super::this_program()?
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What is sent to the group of `run` must not stop it.
            .process_group(0)
            .spawn()?;
        let pipe = process.stdin.take().map(OwnedFd::from);
        let ready = process.stdout.take().map(|mut ready| ready.read_exact(&mut [0]));
        let (Some(pipe), Some(Ok(()))) = (pipe, ready) else {
            let _ = process.kill();
            let status = process.wait()?;
            return Err(io::Error::other(format!("the watchdog ended: {status}")));
        };
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { process, pipe })
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Tells which processes to kill.
    pub(super) fn watch(&self, group: Group) -> io::Result<()> {
        let leader = group.leader().as_raw_nonzero();
        self.tell(&format!("{} {leader}\n", if group.is_own() { "group" } else { "process" }))
    }

    /// Tells when the lock ends, by [`now`]. The watchdog kills the command 100 ms earlier.
    pub(super) fn lock_ends(&self, at: Duration) -> io::Result<()> {
        self.tell(&format!("until {}\n", at.as_nanos()))
    }

    /// Ends the watchdog, as the command has ended.
    pub(super) fn end(mut self) {
        if self.tell("done\n").is_err() {
            let _ = self.process.kill();
        }
        drop(self.pipe);
        let _ = self.process.wait();
    }

    /// An error where the watchdog has ended, or does not read.
    fn tell(&self, line: &str) -> io::Result<()> {
        let written = rustix::io::write(&self.pipe, line.as_bytes())?;
        if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// What the watchdog was told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Orders {
    group: Option<Group>,
    lock_ends: Option<Duration>,
    is_done: bool,
}

impl Orders {
    fn read(&mut self, line: &str) {
        let (word, value) = line.split_once(' ').unwrap_or((line, ""));
        let pid = || value.parse().ok().and_then(Pid::from_raw);
        match word {
            "group" => self.group = pid().map(|leader| Group::new(leader, true)),
            "process" => self.group = pid().map(|leader| Group::new(leader, false)),
            "until" => self.lock_ends = value.parse().ok().map(Duration::from_nanos),
            "done" => self.is_done = true,
            _ => {}
        }
    }

    /// Returns when to kill the command.
    fn kill_at(&self) -> Option<Duration> {
        self.group.and(self.lock_ends).map(|at| at.saturating_sub(KILL_MARGIN))
    }

    /// Returns the time until then.
    fn kill_in(&self) -> Duration {
        self.kill_at().map_or(Duration::MAX, |at| at.saturating_sub(now()))
    }
}

/// The watchdog. Reads orders from the standard input until it is told that the command has ended.
pub(super) fn main() -> io::Result<()> {
    io::stdout().write_all(b"r")?;
    io::stdout().flush()?;
    let (mut orders, mut text, mut is_due) = (Orders::default(), String::new(), false);
    loop {
        let wait = if is_due { LOOK } else { orders.kill_in().min(LOOK) };
        // All orders are read before the clock is judged: newer ones may be behind an older end.
        let mut is_readable = is_readable(wait)?;
        let mut is_over = false;
        while is_readable {
            let mut bytes = [0; 4096];
            let count = rustix::io::read(io::stdin(), &mut bytes)?;
            is_over |= count == 0;
            text.push_str(&String::from_utf8_lossy(&bytes[..count]));
            is_readable = count > 0 && self::is_readable(Duration::ZERO)?;
        }
        while let Some((line, rest)) = text.split_once('\n') {
            orders.read(line);
            text = rest.to_owned();
        }
        if orders.is_done {
            return Ok(());
        }
        // Again and again while `run` is suspended: the command may be starting processes.
        is_due = orders.kill_in().is_zero();
        if is_over || is_due {
            if let Some(group) = orders.group {
                group.signal_all(Signal::KILL);
            }
            if is_over {
                return Ok(());
            }
        }
    }
}

fn is_readable(wait: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let fd = stdin.as_fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let timeout = Timespec::try_from(wait).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kill_is_due_before_end() {
        let mut orders = Orders::default();
        orders.read("until 5000000000");
        assert_eq!(orders.kill_at(), None, "nothing to kill yet");
        orders.read("group 17");
        assert_eq!(orders.kill_at(), Some(Duration::from_millis(4_900)));
        orders.read("until 6000000000");
        assert_eq!(orders.kill_at(), Some(Duration::from_millis(5_900)));
        assert!(orders.group.is_some_and(Group::is_own) && !orders.is_done);
        orders.read("done");
        assert!(orders.is_done);
    }
}
