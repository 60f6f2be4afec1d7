//! Names that a process above this one holds while it waits for this one: a wait for them would never end.

use std::env;

use rustix::process::getpid;
use serde::{Deserialize, Serialize};
use tower_redlock::{Redlock, Resource};

use super::{args::Task, processes::ancestors};

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

/// Returns why the lock is not granted while the processes above this one, which hold these names, wait for it.
pub(super) fn endless_wait(task: &Task<'_>, above: &[HeldAbove<'_>]) -> Option<String> {
    let HeldAbove { pid, name, is_shared } = above.first()?;
    match task {
        // Both share it.
        Task::Shared(_) if *is_shared => None,
        // A slot that is free, or that another process holds, is granted in time.
        Task::Slot(_, slots) if above.len() < slots.len() => None,
        Task::Slot(resource, slots) => {
            let pids: Vec<_> = above.iter().map(|held| held.pid.to_string()).collect();
            Some(format!(
                "all {} slots of \"{resource}\" are held by redlock runs above it, process {}, and each would \
                 wait for the other: remove one of them, or give the inner one --pass-through",
                slots.len(),
                pids.join(", ")
            ))
        }
        _ => Some(format!(
            "\"{name}\" is held by the redlock run above it, process {pid}, and each would wait for the other: \
             remove one of the two{}",
            // The lock above does not cover exclusive work.
            if *is_shared { "" } else { ", or give the inner one --pass-through" }
        )),
    }
}

/// Returns why the locks above this process do not cover the command.
pub(super) fn uncovered(task: &Task<'_>, above: &[HeldAbove<'_>]) -> Option<String> {
    let HeldAbove { pid, name, .. } = above.iter().find(|held| held.is_shared)?;
    (!matches!(task, Task::Shared(_))).then(|| {
        format!(
            "--pass-through: the redlock run above it, process {pid}, only shares \"{name}\", and others may \
             share it as well: give the inner one --shared, or remove one of the two"
        )
    })
}

/// Reads the variable. A malformed value counts as an empty one.
fn read() -> Vec<Held> {
    let value = env::var(VARIABLE).unwrap_or_default();
    serde_json::from_str(&value).unwrap_or_default()
}
