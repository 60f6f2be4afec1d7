//! The processes of the machine, from /proc.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use rustix::process::Pid;

/// A process in /proc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: i32,
    /// It has ended, and nobody has asked for its status yet.
    is_zombie: bool,
}

/// Returns the living processes that descend from `ancestor`, but for those `apart` and what descends from
/// them.
pub(super) fn descendants(ancestor: Pid, apart: &[Pid]) -> Vec<Pid> {
    let apart: HashSet<i32> = apart.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
    let found = of(&stats(), ancestor.as_raw_nonzero().get(), &apart);
    found.into_iter().filter_map(Pid::from_raw).collect()
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
    let stat =
        |pid: i32| Some((pid, parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
    pids.filter_map(stat).collect()
}

/// Parses `pid (name) state parent …`; a name may have spaces and parentheses.
fn parse(text: &str) -> Option<Stat> {
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // The state is that of the main thread, which may have ended before the others.
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
        let own = rustix::process::getpid();
        assert!(descendants(own, &[]).contains(&pid));
        assert!(!descendants(own, &[pid]).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(own, &[]).contains(&pid));
    }
}
