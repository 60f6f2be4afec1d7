//! A server's machine: its process, its clock, its saved data.

use crate::redis::{ConnId, Server, Store};

/// The start of every run on a correct clock, in µs since the epoch.
pub const EPOCH: u64 = 1_735_689_600_000_000;

/// Whether the machine of a server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Power {
    /// The process runs.
    #[default]
    On,
    /// The process is gone: connections are refused.
    Down,
    /// The machine is gone: nothing is answered.
    Dark,
}

/// A server and its machine.
#[derive(Debug)]
pub struct ServerHost {
    /// The process.
    pub server: Server,
    /// Whether it answers.
    pub power: Power,
    /// Whether the process is stopped: connections stay open, and no command runs.
    pub is_frozen: bool,
    /// The relative speed of its clock above true time, in millionths.
    pub fast_by: i64,
    /// The lead of its clock at the start plus all its jumps, in µs.
    pub ahead: i64,
    /// The number of the running process; each restart increments it.
    pub(super) epoch: u64,
    /// The saved data, oldest first.
    pub(super) saved: Vec<Store>,
    /// Connections with commands that arrived while it was frozen.
    pub(super) backlog: Vec<ConnId>,
    /// The greatest time shown, so that a script's clock never moves back by rounding.
    pub(super) shown: u64,
}

impl ServerHost {
    /// Creates a machine with a correct clock.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            power: Power::On,
            is_frozen: false,
            fast_by: 0,
            ahead: 0,
            epoch: 1,
            saved: Vec::new(),
            backlog: Vec::new(),
            shown: 0,
        }
    }

    /// Returns the time of its clock after `micros` of the run, in µs since the epoch.
    pub fn clock(&self, micros: u64) -> u64 {
        let passed = i64::try_from(micros).unwrap_or(i64::MAX);
        let drifted = passed
            + passed / 1_000_000 * self.fast_by
            + passed % 1_000_000 * self.fast_by / 1_000_000;
        EPOCH.saturating_add_signed(drifted + self.ahead)
    }

    /// Saves its data.
    pub(super) fn save(&mut self) {
        self.saved.push(self.server.store.clone());
        if self.saved.len() > 4 {
            self.saved.remove(0);
        }
    }
}
