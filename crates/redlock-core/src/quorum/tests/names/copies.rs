//! How a server that forgot takes over records, after its activation (R6).

use super::{
    rule::RulePart,
    work::Lacks,
    world::{NAMES, NamesWorld, PerName},
};
use crate::{protocol::formulas::Sources, protocol::views::Incarnation};

/// A client copies records to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    node: usize,
    machine: usize,
    incarnation: Incarnation,
    is_bootstrapped: bool,
    /// Whether the servers that were read lacked no records.
    read: PerName<Option<bool>>,
}

impl Copy {
    fn sources(&self, nodes: usize) -> Sources {
        let count = |is: bool| self.read.iter().filter(|read| **read == Some(is)).count();
        let is_bootstrapped = self.is_bootstrapped;
        // The server itself lacks records.
        Sources { nodes, complete: count(true), incomplete: count(false) + 1, is_bootstrapped }
    }
}

impl NamesWorld {
    fn incarnation_of(&self, node: usize, machine: usize) -> Option<Incarnation> {
        self.own(node, machine).filter(|_| self.is_enrolled(node, machine))
    }

    /// The client begins to copy records to a server.
    pub(crate) fn begin_copy(&mut self, client: usize, node: usize) -> bool {
        let Some(machine) = self.drivers[client].conn[node] else { return false };
        let Some(incarnation) = self.incarnation_of(node, machine) else { return false };
        let server = self.server(node, machine);
        if self.copies[client].is_some() || !server.active || server.kept.lacks.is_none() {
            return false;
        }
        let is_bootstrapped = server.kept.lacks == Some(Lacks::Bootstrapped);
        let read = [None; NAMES];
        self.copies[client] = Some(Copy { node, machine, incarnation, is_bootstrapped, read });
        true
    }

    /// The client copies the records of one server, also again if it was not complete
    /// before.
    pub(crate) fn copy_from(&mut self, client: usize, from: usize) -> bool {
        let Some(mut copy) = self.copies[client] else { return false };
        let Some(machine) = self.drivers[client].conn[from] else { return false };
        if from == copy.node || copy.read[from] == Some(true) || !self.is_enrolled(from, machine) {
            return false;
        }
        let source = self.server(from, machine).clone();
        let driver = &self.drivers[client];
        let read = driver.in_sight(from).filter(|_| !driver.is_displaced(from));
        let votes = source.active && read.map(|read| &read.view) == source.view.as_ref();
        let is_complete = source.active && source.kept.lacks.is_none();
        if is_complete && votes {
            copy.read[from] = Some(true);
        } else if !is_complete && (votes || !self.has(RulePart::VotingSources)) {
            copy.read[from] = Some(false);
        }
        let target = &mut self.server_mut(copy.node, copy.machine).kept;
        target.record = target.record.or(source.kept.record);
        self.copies[client] = Some(copy);
        true
    }

    /// The client says on the server that it has all records.
    pub(crate) fn end_copy(&mut self, client: usize) -> bool {
        let Some(copy) = self.copies[client] else { return false };
        let sources = copy.sources(self.setup.names);
        let forgot = sources.incomplete >= self.quorum();
        let has_all = sources.suffice() || (forgot && !self.has(RulePart::OwnBootstrap));
        if !has_all && self.has(RulePart::EnoughCopies) {
            return false;
        }
        self.copies[client] = None;
        if self.incarnation_of(copy.node, copy.machine) == Some(copy.incarnation) {
            self.server_mut(copy.node, copy.machine).kept.lacks = None;
        }
        true
    }
}
