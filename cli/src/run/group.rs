//! The processes of a command: its process group, and on Linux everything that descends from it.

use rustix::{
    io::Errno,
    process::{Pid, Signal, getpid, kill_process, kill_process_group, test_kill_process_group},
};

/// The processes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    leader: Pid,
    /// It is the leader of a process group of its own.
    is_own: bool,
    /// The first process has not been reaped: its id is not another's.
    has_leader: bool,
}

impl Group {
    /// The command whose first process is `leader`.
    pub(super) const fn new(leader: Pid, is_own: bool) -> Self {
        Self { leader, is_own, has_leader: true }
    }

    /// What is left when the first process has been reaped.
    pub(super) const fn without_leader(self) -> Self {
        Self { has_leader: false, ..self }
    }

    pub(super) const fn leader(self) -> Pid {
        self.leader
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

    /// Sends a signal to all processes of the command: to its group, and on Linux to all that descend from
    /// this process, which adopts orphans. To the group first: reading /proc takes its time on a machine
    /// that is busy.
    pub(super) fn signal_all(self, signal: Signal) {
        self.signal(signal);
        #[cfg(target_os = "linux")]
        for process in super::proc::descendants(getpid(), &[]) {
            let _ = kill_process(process, signal);
        }
    }

    /// Returns whether a process is left, after all children of this process have been reaped: on Linux it
    /// would be one of them, as this process adopts orphans.
    pub(super) fn is_left(self) -> bool {
        !cfg!(target_os = "linux")
            && self.is_own
            && !matches!(test_kill_process_group(self.leader), Err(Errno::SRCH))
    }
}
