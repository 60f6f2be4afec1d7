//! The processes of a command: its process group, and on Linux everything that descends from it.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

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
        // Fails if the processes have ended meanwhile.
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
        for process in descendants(&[]) {
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

/// A process in /proc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: i32,
    /// It has ended, and was not reaped yet.
    is_zombie: bool,
}

/// Returns the living descendants of this process, but for those `apart` and their descendants. None without
/// `/proc`.
pub(super) fn descendants(apart: &[Pid]) -> Vec<Pid> {
    let apart: HashSet<i32> = apart.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
    let found = of(&stats(), getpid().as_raw_nonzero().get(), &apart);
    found.into_iter().filter_map(Pid::from_raw).collect()
}

/// Returns the processes above this one. None without `/proc`.
pub(super) fn ancestors() -> Vec<i32> {
    let parent = |pid: &i32| stat(*pid).map(|stat| stat.parent).filter(|parent| *parent > 0);
    std::iter::successors(parent(&getpid().as_raw_nonzero().get()), parent).collect()
}

fn of(stats: &HashMap<i32, Stat>, ancestor: i32, apart: &HashSet<i32>) -> Vec<i32> {
    let mut found = HashSet::from([ancestor]);
    loop {
        let is_new = |(pid, stat): &(&i32, &Stat)| {
            !apart.contains(*pid) && !found.contains(*pid) && found.contains(&stat.parent)
        };
        let new: Vec<i32> = stats.iter().filter(is_new).map(|(pid, _)| *pid).collect();
        if new.is_empty() {
            break;
        }
        found.extend(new);
    }
    found.remove(&ancestor);
    found.into_iter().filter(|pid| !stats[pid].is_zombie).collect()
}

/// Reads all processes; those that end meanwhile are left out.
fn stats() -> HashMap<i32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

fn stat(pid: i32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses `pid (name) state parent …`; a name may have spaces and parentheses.
fn parse(text: &str) -> Option<Stat> {
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // The main thread may have ended before the others.
    let threads: u32 = fields.nth(15).and_then(|threads| threads.parse().ok()).unwrap_or(1);
    Some(Stat { parent, is_zombie: matches!(state, "Z" | "X") && threads <= 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_parentheses() {
        let stat = Stat { parent: 17, is_zombie: false };
        assert_eq!(parse("4 (a) Z 1 (b) S 17 4 4 0"), Some(stat));
        assert_eq!(parse("4 (a) Z 17 4"), Some(Stat { is_zombie: true, ..stat }));
        assert_eq!(parse("4"), None);
    }

    #[test]
    fn threads_outlive_the_main_one() {
        let stat = |threads| format!("4 (a) Z 17 4 4 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 1");
        assert_eq!(parse(&stat(1)), Some(Stat { parent: 17, is_zombie: true }));
        assert_eq!(parse(&stat(2)), Some(Stat { parent: 17, is_zombie: false }));
    }

    #[test]
    fn descendants_are_living_and_transitive() {
        let alive = |parent| Stat { parent, is_zombie: false };
        let zombie = Stat { parent: 10, is_zombie: true };
        let stats = HashMap::from([
            (1, alive(0)),
            (10, alive(1)),
            (11, alive(10)),
            (12, alive(11)),
            (13, alive(1)),
            (14, zombie),
            (15, alive(10)),
            (16, alive(15)),
        ]);
        let mut found = of(&stats, 10, &HashSet::from([15]));
        found.sort_unstable();
        assert_eq!(found, [11, 12]);
    }

    #[test]
    fn own_child_is_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(descendants(&[]).contains(&pid));
        assert!(!descendants(&[pid]).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(&[]).contains(&pid));
    }

    #[test]
    fn own_parent_is_an_ancestor() {
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        assert_eq!(ancestors().first(), Some(&parent));
    }
}
