//! How a client tells servers of each other, and enrols a displaced one anew.

use std::sync::Arc;

use super::{rule::Part, world::World};

impl World {
    pub(super) fn reenrol(&mut self, client: usize, node: usize) -> bool {
        let driver = &self.drivers[client];
        let (Some(read), Some(displaced)) = (driver.in_sight(node), driver.displaced[node]) else {
            return false;
        };
        let due =
            displaced.reopened && self.client_now(client) >= displaced.since + self.setup.wait();
        let machine = read.machine;
        let stored = self.server(node, machine).view.as_ref().map(|view| view.incarnation);
        if !due || stored != Some(read.view.incarnation) || !self.is_enrolled(node, machine) {
            return false;
        }
        let known = if self.has(Part::Epochs) { driver.highest[node] } else { None };
        self.enrol(node, machine, known);
        true
    }

    pub(super) fn store(&mut self, client: usize, into: usize, of: usize) -> bool {
        let driver = &self.drivers[client];
        let (Some(target), Some(read)) = (driver.in_sight(into), driver.in_sight(of)) else {
            return false;
        };
        if into == of || driver.is_displaced(of) || !self.is_enrolled(into, target.machine) {
            return false;
        }
        let (machine, owner) = (target.machine, read.view.incarnation);
        if !self.has(Part::GreaterOwner) {
            let seen = Arc::clone(&target.view);
            let server = self.server_mut(into, machine);
            if server.view.as_ref() == Some(&seen) {
                server.replace(of, owner);
            }
            return server.view.as_ref() != Some(&seen);
        }
        let stored = self.server(into, machine).view.as_ref().map(|view| view.owners[of]);
        if stored.is_some_and(|stored| stored >= Some(owner)) {
            return false;
        }
        self.server_mut(into, machine).store(of, owner);
        true
    }

    /// Stores into a server in probation what is known: the servers in sight, and the owners that
    /// any server told.
    pub(super) fn merge(&mut self, client: usize, node: usize) -> bool {
        let driver = &self.drivers[client];
        let Some(read) = driver.in_sight(node) else { return false };
        let machine = read.machine;
        let rule = self.has(Part::Merge) && self.has(Part::GreaterOwner);
        if read.active || !self.is_enrolled(node, machine) || !rule {
            return false;
        }
        let before = self.server(node, machine).view.clone();
        let mut server = self.server(node, machine).clone();
        for other in self.names().filter(|&other| other != node && !driver.is_displaced(other)) {
            if let Some(read) = driver.in_sight(other) {
                server.store(other, read.view.incarnation);
            }
            let Some(read) = &driver.reads[other] else { continue };
            for third in self.names().filter(|&third| third != node) {
                if let Some(owner) = read.view.owners[third] {
                    server.store(third, owner);
                }
            }
        }
        let changed = server.view != before;
        *self.server_mut(node, machine) = server;
        changed
    }
}
