//! Names that a process above this one holds while it waits for this one: a wait for them would never end.

use std::env;

use rustix::process::getpid;
use serde::{Deserialize, Serialize};
use tower_redlock::{Redlock, Resource};

use super::processes::ancestors;

/// The variable with the names that are held for a command and its descendants.
pub(super) const VARIABLE: &str = "REDLOCK_HELD";

/// The locks that one `redlock run` requests, or holds while its command runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// Its process.
    pub(super) pid: i32,
    /// The servers and the prefix: other sets have other locks.
    set: String,
    names: Vec<String>,
    /// Whether the lock is shared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
}

/// A name that a process above this one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldAbove<'a> {
    pub(super) pid: i32,
    pub(super) name: &'a str,
    pub(super) is_shared: bool,
}

impl Held {
    pub(super) fn new(redlock: &Redlock, prefix: &str, names: Vec<String>) -> Self {
        let mut nodes: Vec<_> = redlock.nodes().iter().map(|node| node.name().to_owned()).collect();
        nodes.sort_unstable();
        let set = format!("{prefix} {}", nodes.join(" "));
        Self { pid: getpid().as_raw_nonzero().get(), set, names, shared: false }
    }

    /// Returns those of these names that processes above this one hold.
    pub(super) fn above(&self) -> Vec<HeldAbove<'_>> {
        let ancestors = ancestors();
        // The variable may be in the environment of a process that outlived its `redlock run`.
        let is_above = |held: &Held| !cfg!(target_os = "linux") || ancestors.contains(&held.pid);
        let above: Vec<_> =
            read().into_iter().filter(|held| held.set == self.set && is_above(held)).collect();
        let held = self.names.iter().filter_map(|name| {
            let held = above.iter().find(|held| held.names.contains(name))?;
            Some(HeldAbove { pid: held.pid, name, is_shared: held.shared })
        });
        held.collect()
    }

    /// Returns the variable's value for a command that runs under this lock as well.
    pub(super) fn value(&self, lock: &Resource, shared: bool) -> String {
        let mut all = read();
        let names = lock.names().map(str::to_owned).collect();
        all.push(Self { pid: self.pid, set: self.set.clone(), names, shared });
        serde_json::to_string(&all).unwrap_or_default()
    }
}

/// Reads the variable. A malformed value counts as an empty one.
fn read() -> Vec<Held> {
    let value = env::var(VARIABLE).unwrap_or_default();
    serde_json::from_str(&value).unwrap_or_default()
}
