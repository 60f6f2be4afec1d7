//! Groups of servers that could grant a lock, whether or not a client asks them.
//!
//! A lock that was granted by a group may be held for a TTL after the group was last seen. So a
//! group must share a server with each one of the last TTL. This needs no client that takes locks,
//! which makes searches shorter; it knows only groups whose members agree at one instant.

use super::{
    rule::RulePart,
    step::Violation,
    world::{NamesWorld, Tick},
};

/// A group that existed, and the last tick in which it did. One bit for each server that keeps
/// what it granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrantGroup {
    pub(crate) servers: u32,
    pub(crate) last: Tick,
}

impl NamesWorld {
    /// Takes note of the groups of q servers that exist now.
    pub(crate) fn note_groups(&mut self) {
        // A holder's clock may be the slowest.
        let (now, validity) = (self.now, self.setup.validity());
        self.groups.retain(|group| now < group.last + validity);
        let found = self.present_groups();
        if found.iter().any(|&a| self.groups.iter().any(|b| a & b.servers == 0)) {
            self.violation = Some(Violation::DisjointGroups);
        }
        for servers in found {
            match self.groups.iter_mut().find(|group| group.servers == servers) {
                Some(group) => group.last = now,
                None => self.groups.push(GrantGroup { servers, last: now }),
            }
        }
    }

    /// Returns the groups that could grant a lock now.
    pub(crate) fn present_groups(&self) -> Vec<u32> {
        let mut found = Vec::new();
        self.collect(0, &mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, node: usize, members: &mut Vec<usize>, found: &mut Vec<u32>) {
        if members.len() == self.quorum() {
            found.push(members.iter().map(|&at| 1 << at).sum());
            return;
        }
        if node == self.setup.names {
            return;
        }
        self.collect(node + 1, members, found);
        for machine in 0..self.setup.machines {
            let at = node * self.setup.machines + machine;
            if !self.servers[at].active || !self.is_enrolled(node, machine) {
                continue;
            }
            let agrees = |other: &usize| self.servers[*other].view == self.servers[at].view;
            if !self.has(RulePart::Views) || members.iter().all(agrees) {
                members.push(at);
                self.collect(node + 1, members, found);
                members.pop();
            }
        }
    }

    /// Removes a server that forgets its keys from all groups, as it refuses no lock any more.
    pub(crate) fn forget_in_groups(&mut self, at: usize) {
        for group in &mut self.groups {
            group.servers &= !(1 << at);
        }
    }
}
