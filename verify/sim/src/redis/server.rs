//! One server: its data, its identity, its condition, and its listeners.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Bytes, Reply, Store, commands, lua::Script};

/// A connection to a server.
pub type ConnId = u64;

/// Master or replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Accepts writes.
    #[default]
    Master,
    /// Refuses writes.
    Replica,
}

/// A condition that keeps a server from running commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    Ready,
    /// It loads its data.
    Loading,
    /// A long script of another client runs.
    Busy,
}

/// A server. It has no clock: each call passes the time.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Its data.
    pub store: Store,
    /// Identifies the process: 40 hex digits.
    pub run_id: String,
    /// Identifies the history of its data: 40 hex digits.
    pub replid: String,
    /// Master or replica.
    pub role: Role,
    /// The condition that keeps it from running commands, if any.
    pub condition: Condition,
    /// Its memory limit in bytes; 0 means no limit.
    pub maxmemory: usize,
    /// The eviction policy beyond the limit.
    pub policy: String,
    /// For a Sentinel, its report on each name.
    pub reports: BTreeMap<String, MasterReport>,
    /// Scripts by their SHA-1.
    pub(super) scripts: BTreeMap<String, Arc<Script>>,
    pub(super) channels: BTreeMap<Bytes, BTreeSet<ConnId>>,
    /// Messages to be sent to listeners, in order.
    pub(super) pushed: Vec<(ConnId, Reply)>,
}

/// The report of a Sentinel on a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasterReport {
    /// The number of its last failover.
    pub epoch: u64,
    /// The server, by its number.
    pub master: usize,
}

/// The environment of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// The server's clock in µs since the epoch.
    pub(super) now: u64,
    pub(super) conn: ConnId,
    pub(super) script: Option<ScriptState>,
}

/// The permissions of a running script.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptState {
    /// Whether memory was low when it began.
    pub(super) is_full: bool,
    /// Whether it may write nevertheless.
    pub(super) allows_oom: bool,
    /// Whether it has written.
    pub(super) is_dirty: bool,
}

impl Call {
    /// Returns the server's time in ms.
    pub(super) fn millis(&self) -> i64 {
        i64::try_from(self.now / 1_000).unwrap_or(i64::MAX)
    }
}

impl Server {
    /// Creates a master without data.
    pub fn new(run_id: String, replid: String) -> Self {
        Self { run_id, replid, policy: "noeviction".into(), ..Self::default() }
    }

    /// Runs a command of a connection. `now` is the server's time in µs since the epoch.
    pub fn run(&mut self, conn: ConnId, now: u64, args: &[Bytes]) -> Vec<Reply> {
        let mut call = Call { now, conn, script: None };
        commands::from_client(self, &mut call, args)
    }

    /// Takes the messages for listeners, in order.
    pub fn take_pushed(&mut self) -> Vec<(ConnId, Reply)> {
        std::mem::take(&mut self.pushed)
    }

    /// Removes a connection.
    pub fn closed(&mut self, conn: ConnId) {
        self.channels.retain(|_, listeners| {
            listeners.remove(&conn);
            !listeners.is_empty()
        });
    }

    /// Replaces the process by another one with this data, without scripts and listeners.
    pub fn restart(&mut self, run_id: String, store: Store) {
        self.run_id = run_id;
        self.store = store;
        self.scripts.clear();
        self.channels.clear();
        self.pushed.clear();
        self.condition = Condition::Ready;
    }

    /// Whether more memory is used than is allowed.
    pub(super) fn is_full(&self) -> bool {
        self.maxmemory > 0 && self.store.used() > self.maxmemory
    }

    pub(super) fn is_listening(&self, conn: ConnId) -> bool {
        self.channels.values().any(|listeners| listeners.contains(&conn))
    }
}
