//! The processes of a command: its process group, and on Linux everything that descends from it.

use std::time::Duration;

use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group,
        test_kill_process_group, waitpgid,
    },
};

/// Interval between looks at processes that are being ended.
pub(super) const LOOK: Duration = Duration::from_millis(2);

/// The processes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    leader: Pid,
    /// It is the leader of a process group of its own.
    is_own: bool,
    /// The first process has not been reaped: its id is not another's.
    has_leader: bool,
    /// The process that all others descend from.
    ancestor: Pid,
    /// A process that descends from it as well, and is none of the command's.
    apart: Option<Pid>,
}

impl Group {
    /// The command whose first process is `leader`.
    pub(super) const fn new(leader: Pid, is_own: bool) -> Self {
        Self { leader, is_own, has_leader: true, ancestor: leader, apart: None }
    }

    /// Adds what descends from this process, which adopts the command's orphans, but for `apart`.
    pub(super) fn with_adopted(self, apart: Pid) -> Self {
        Self { ancestor: getpid(), apart: Some(apart), ..self }
    }

    /// What is left when the first process has been reaped.
    pub(super) const fn without_leader(self) -> Self {
        Self { has_leader: false, ..self }
    }

    pub(super) const fn leader(self) -> Pid {
        self.leader
    }

    pub(super) const fn is_own(self) -> bool {
        self.is_own
    }

    /// Sends a signal to the command's process group, or to its first process.
    pub(super) fn signal(self, signal: Signal) {
        // Where the processes have ended meanwhile, there is nothing to do.
        if self.is_own {
            let _ = kill_process_group(self.leader, signal);
        } else if self.has_leader {
            let _ = kill_process(self.leader, signal);
        }
    }

    /// Passes on what this process received. A terminal sends its own signals to every process of the
    /// foreground group.
    pub(super) fn forward(self, signal: Signal) {
        let is_of_terminal = [Signal::INT, Signal::QUIT, Signal::WINCH].contains(&signal);
        if self.is_own || !is_of_terminal {
            self.signal(signal);
        }
    }

    /// Sends a signal to all processes of the command.
    pub(super) fn signal_all(self, signal: Signal) {
        self.signal(signal);
        for process in self.descendants() {
            let _ = kill_process(process, signal);
        }
    }

    /// Returns whether a process of the command is left, after the first one has ended. Reaps those that
    /// this process inherited.
    pub(super) fn is_left(self) -> bool {
        if self.is_own {
            while let Ok(Some(_)) = waitpgid(self.leader, WaitOptions::NOHANG) {}
            if !matches!(test_kill_process_group(self.leader), Err(Errno::SRCH)) {
                return true;
            }
        }
        !self.descendants().is_empty()
    }

    #[cfg(target_os = "linux")]
    fn descendants(self) -> Vec<Pid> {
        super::proc::descendants(self.ancestor, self.apart)
    }

    #[cfg(not(target_os = "linux"))]
    fn descendants(self) -> Vec<Pid> {
        Vec::new()
    }
}
