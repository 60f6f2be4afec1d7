//! Clocks that run at different rates.
//!
//! The slowest clock counts the world's ticks. Any other clock gains a tick on it from time to
//! time, at most once in a TTL: so two clocks that measure a TTL differ by at most one tick, which
//! is the allowance of [`NamesSetup::drift`].

use super::{
    rule::RulePart,
    world::{CLIENTS, NamesSetup, NamesWorld, Tick},
};

/// A clock of a client or of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ModelClock {
    /// Ticks ahead of the slowest clock.
    ahead: Tick,
    /// The true time of the last gain.
    gained: Option<Tick>,
}

/// Whose clock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Client(usize),
    Server { node: usize, machine: usize },
}

impl NamesSetup {
    /// How long a lease is valid, by the clock of its holder.
    pub(crate) fn validity(&self) -> Tick {
        let allows = self.without != Some(RulePart::DriftInValidity);
        self.ttl - if allows { self.drift } else { 0 }
    }

    /// How long a probation lasts, by the clock of a client.
    pub(crate) fn wait(&self) -> Tick {
        match self.without {
            Some(RulePart::WaitBeyondValidity) => self.validity(),
            _ => self.ttl + self.drift,
        }
    }
}

impl NamesWorld {
    fn clock(&mut self, of: Whose) -> &mut ModelClock {
        let at = match of {
            Whose::Client(client) => client,
            Whose::Server { node, machine } => CLIENTS + node * self.setup.machines + machine,
        };
        &mut self.clocks[at]
    }

    /// Returns the time by a client's clock.
    pub(crate) fn client_now(&self, client: usize) -> Tick {
        self.now + self.clocks[client].ahead
    }

    /// Returns the time by a server's clock.
    pub(crate) fn server_now(&self, node: usize, machine: usize) -> Tick {
        self.now + self.clocks[CLIENTS + node * self.setup.machines + machine].ahead
    }

    /// A clock gains a tick, unless it did so less than a TTL ago.
    pub(crate) fn gain(&mut self, of: Whose) -> bool {
        let (now, ttl) = (self.now, self.setup.ttl);
        let allowed = self.setup.drift > 0 && self.left.gains > 0;
        let clock = self.clock(of);
        if !allowed || clock.gained.is_some_and(|at| now < at + ttl) {
            return false;
        }
        *clock = ModelClock { ahead: clock.ahead + 1, gained: Some(now) };
        self.left.gains -= 1;
        true
    }
}
