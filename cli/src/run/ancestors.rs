//! Names that are held by a process above this one, which waits for it: to wait for them would never end.

use std::{env, process};

use serde::{Deserialize, Serialize};
use tower_redlock::Redlock;

/// The variable that tells a command's descendants what is held for it.
pub(super) const VARIABLE: &str = "REDLOCK_HELD";

/// What one `redlock run` holds while its command runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// Its process.
    pub(super) pid: u32,
    /// The servers and the prefix: other sets have other locks.
    set: String,
    pub(super) names: Vec<String>,
}

impl Held {
    pub(super) fn new(redlock: &Redlock, prefix: &str, names: Vec<String>) -> Self {
        let mut nodes: Vec<_> = redlock.nodes().iter().map(|node| node.name().to_owned()).collect();
        nodes.sort_unstable();
        let set = format!("{prefix} {}", nodes.join(" "));
        Self { pid: process::id(), set, names }
    }

    /// Returns the process above this one that holds one of these names, and that name.
    pub(super) fn above(&self) -> Option<(u32, String)> {
        let ancestors = ancestors();
        let others = read().into_iter().filter(|held| held.set == self.set);
        // The variable may be in the environment of a process that runs on.
        others.filter(|held| ancestors.contains(&held.pid)).find_map(|held| {
            let name = held.names.into_iter().find(|name| self.names.contains(name))?;
            Some((held.pid, name))
        })
    }

    /// Returns the variable's value for a command that runs under these names as well.
    pub(super) fn value(&self) -> String {
        let mut all = read();
        all.push(self.clone());
        serde_json::to_string(&all).unwrap_or_default()
    }
}

/// What the environment says is held. A value of another form says nothing.
fn read() -> Vec<Held> {
    let value = env::var(VARIABLE).unwrap_or_default();
    serde_json::from_str(&value).unwrap_or_default()
}

/// Returns the processes above this one.
#[cfg(target_os = "linux")]
fn ancestors() -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the program may hold anything: the fields after its last bracket are numbers.
        let (_, fields) = stat.rsplit_once(") ")?;
        fields.split(' ').nth(1)?.parse().ok().filter(|parent| *parent > 0)
    };
    std::iter::successors(parent(process::id()), |pid| parent(*pid)).collect()
}

/// Without /proc, those that the variable names are taken for ancestors.
#[cfg(not(target_os = "linux"))]
fn ancestors() -> Vec<u32> {
    read().into_iter().map(|held| held.pid).collect()
}
