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

/// What keeps a server from running commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    Ready,
    /// It reads its data.
    Loading,
    /// A script of somebody else runs.
    Busy,
}

/// A server. Its clock is the caller's: each call says what it shows.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Its data.
    pub store: Store,
    /// Which process it is: 40 hex digits.
    pub run_id: String,
    /// Which history its data has: 40 hex digits.
    pub replid: String,
    /// Master or replica.
    pub role: Role,
    /// What keeps it from running commands.
    pub condition: Condition,
    /// Its limit in bytes; 0: none.
    pub maxmemory: usize,
    /// What it does beyond that.
    pub policy: String,
    /// Of a Sentinel: who serves each name.
    pub words: BTreeMap<String, Word>,
    /// Scripts by their SHA-1.
    pub(super) scripts: BTreeMap<String, Arc<Script>>,
    pub(super) channels: BTreeMap<Bytes, BTreeSet<ConnId>>,
    /// Messages to be sent to listeners, in order.
    pub(super) pushed: Vec<(ConnId, Reply)>,
}

/// What a Sentinel says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The number of its last failover.
    pub epoch: u64,
    /// The server, by its number.
    pub master: usize,
}

/// What a command runs in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// The server's clock in µs since the epoch.
    pub(super) now: u64,
    pub(super) conn: ConnId,
    pub(super) script: Option<ScriptState>,
}

/// What a running script may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptState {
    /// Memory was short when it began.
    pub(super) is_full: bool,
    /// It may write nevertheless.
    pub(super) allows_oom: bool,
    /// It has written.
    pub(super) is_dirty: bool,
}

impl Call {
    /// In ms.
    pub(super) fn millis(&self) -> i64 {
        i64::try_from(self.now / 1_000).unwrap_or(i64::MAX)
    }
}

impl Server {
    /// A master without data.
    pub fn new(run_id: String, replid: String) -> Self {
        Self { run_id, replid, policy: "noeviction".into(), ..Self::default() }
    }

    /// Runs a command of a connection; `now`: the server's clock in µs since the epoch.
    pub fn run(&mut self, conn: ConnId, now: u64, args: &[Bytes]) -> Vec<Reply> {
        let mut call = Call { now, conn, script: None };
        commands::from_client(self, &mut call, args)
    }

    /// Takes the messages for listeners, in order.
    pub fn take_pushed(&mut self) -> Vec<(ConnId, Reply)> {
        std::mem::take(&mut self.pushed)
    }

    /// Forgets a connection.
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
