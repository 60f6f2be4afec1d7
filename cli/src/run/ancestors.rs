//! Names that a process above this one holds while it waits for this one: a wait for them would never end.

use std::env;

use rustix::process::getpid;
use serde::{Deserialize, Serialize};
use tower_redlock::Redlock;

use super::processes::ancestors;

/// The variable with the names that are held for a command and its descendants.
pub(super) const VARIABLE: &str = "REDLOCK_HELD";

/// What one `redlock run` holds while its command runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// Its process.
    pub(super) pid: i32,
    /// The servers and the prefix: other sets have other locks.
    set: String,
    pub(super) names: Vec<String>,
}

impl Held {
    pub(super) fn new(redlock: &Redlock, prefix: &str, names: Vec<String>) -> Self {
        let mut nodes: Vec<_> = redlock.nodes().iter().map(|node| node.name().to_owned()).collect();
        nodes.sort_unstable();
        let set = format!("{prefix} {}", nodes.join(" "));
        Self { pid: getpid().as_raw_nonzero().get(), set, names }
    }

    /// Returns the process above this one that holds one of these names, and that name.
    pub(super) fn above(&self) -> Option<(i32, String)> {
        let ancestors = ancestors();
        let others = read().into_iter().filter(|held| held.set == self.set);
        // The variable may be in the environment of a process that outlived its `redlock run`.
        let is_above = |held: &Held| !cfg!(target_os = "linux") || ancestors.contains(&held.pid);
        others.filter(is_above).find_map(|held| {
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

/// Reads the variable. A malformed value counts as an empty one.
fn read() -> Vec<Held> {
    let value = env::var(VARIABLE).unwrap_or_default();
    serde_json::from_str(&value).unwrap_or_default()
}
