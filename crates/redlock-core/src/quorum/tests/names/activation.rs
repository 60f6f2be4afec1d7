//! The end of a probation: when it is, and how the server learns and is activated.

use std::sync::Arc;

use super::{
    client_view::ServerRead,
    rule::RulePart,
    work::{Lacks, StoredWork},
    world::{NAMES, NamesWorld, PerName, Tick},
};
use crate::protocol::views::View;

/// An activation under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Activation {
    pub(crate) node: usize,
    pub(crate) machine: usize,
    pub(crate) view: Arc<View>,
    /// The witnesses as they were read; for a bootstrap, all that are there.
    pub(crate) witnesses: PerName<Option<ServerRead>>,
    pub(crate) bootstrap: bool,
    /// The servers whose fences were read.
    pub(crate) learnt: PerName<bool>,
    pub(crate) fence: u16,
    /// The clients' work that these servers keep.
    pub(crate) kept: StoredWork,
}

impl NamesWorld {
    /// Returns whether a server must be bootstrapped (otherwise it learns), and from which time on.
    fn due(&self, client: usize, node: usize) -> Option<(bool, Tick)> {
        let driver = &self.drivers[client];
        let timer = driver.timers[node]?;
        driver.in_sight(node).filter(|read| !read.active)?;
        let end = |since: Tick| {
            let from = if self.has(RulePart::Wait) { since } else { timer.seen };
            from + self.setup.wait()
        };
        let has_old_set = self.has(RulePart::OldSet) && driver.has_old_set();
        let starts = driver.in_sight(node).is_some_and(ServerRead::starts) && !has_old_set;
        if timer.bootstrapped && starts {
            return Some((true, end(timer.seen)));
        }
        let starters = self.starters(client, node);
        let there = starters.iter().filter(|&&other| driver.in_sight(other).is_some()).count();
        if let Some(since) = timer.starters.filter(|_| starts && there + 1 >= self.quorum()) {
            let together = self.quorum_end(client).max(self.absence_end(client, node));
            let together = together.max(self.old_set_end(client));
            return Some((true, end(since).max(together)));
        }
        let enough = self.learns_from(client, node).len() >= self.needed();
        timer.voters.filter(|_| enough).map(|since| (false, end(since)))
    }

    fn learns_from(&self, client: usize, node: usize) -> Vec<usize> {
        self.witnesses(client, node, |other| self.drivers[client].in_sight(other).is_some())
    }

    /// Returns when a quorum of those in probation may bootstrap: they do so together.
    fn quorum_end(&self, client: usize) -> Tick {
        let driver = &self.drivers[client];
        let starting = |&node: &usize| driver.in_sight(node).is_some_and(ServerRead::starts);
        let timers = self.names().filter(starting).filter_map(|node| driver.timers[node]);
        let mut since: Vec<_> = timers.filter_map(|timer| timer.starters).collect();
        since.sort_unstable();
        since.get(self.quorum() - 1).map_or(0, |since| since + self.setup.wait())
    }

    /// Returns when all locks have expired of a set that may have granted when it was last seen.
    fn old_set_end(&self, client: usize) -> Tick {
        let seen = self.drivers[client].old_set_seen.filter(|_| self.has(RulePart::OldSet));
        seen.map_or(0, |seen| seen + self.setup.wait())
    }

    /// Returns when the servers that are missing from a small group have been out of sight for a
    /// TTL.
    fn absence_end(&self, client: usize, node: usize) -> Tick {
        let driver = &self.drivers[client];
        let is_out = |&other: &usize| driver.in_sight(other).is_none();
        let with = self.group_around(client, node, |other, _| !is_out(&other));
        if with.len() >= self.blocking() || !self.has(RulePart::Absence) {
            return 0;
        }
        let since = self.names().filter(is_out).map(|other| driver.out_since[other]).max();
        since.map_or(0, |since| since + self.setup.wait())
    }

    pub(crate) fn begin(&mut self, client: usize, node: usize) -> bool {
        let Some((bootstrap, at)) = self.due(client, node) else { return false };
        if self.drivers[client].task.is_some() || self.client_now(client) < at {
            return false;
        }
        let from = if bootstrap {
            self.names().filter(|&other| other != node).collect()
        } else {
            self.learns_from(client, node)
        };
        let driver = &mut self.drivers[client];
        let mut witnesses: PerName<Option<ServerRead>> = std::array::from_fn(|_| None);
        for other in from {
            witnesses[other] = driver.in_sight(other).cloned();
        }
        let read = driver.in_sight(node).expect("it is due");
        driver.task = Some(Activation {
            node,
            machine: read.machine,
            view: Arc::clone(&read.view),
            witnesses,
            bootstrap,
            learnt: [false; NAMES],
            fence: 0,
            kept: StoredWork::default(),
        });
        if let Some(timer) = driver.timers[node].as_mut().filter(|_| bootstrap) {
            timer.bootstrapped = true;
        }
        true
    }

    pub(crate) fn fence(&mut self, client: usize, node: usize) -> bool {
        let driver = &self.drivers[client];
        let Some(task) = &driver.task else { return false };
        let Some(witness) = &task.witnesses[node] else { return false };
        if task.learnt[node] {
            return false;
        }
        let server = self.server(node, witness.machine);
        let same = driver.conn[node] == Some(witness.machine)
            && self.is_enrolled(node, witness.machine)
            && (!self.has(RulePart::WitnessTags)
                || (server.active == witness.active
                    && server.view.as_ref() == Some(&witness.view)));
        let (fence, kept) = (server.fence, server.kept);
        let slot = &mut self.drivers[client].task;
        match slot {
            Some(task) if same => {
                task.learnt[node] = true;
                task.fence = task.fence.max(fence);
                task.kept.learn(&kept);
            }
            _ => *slot = None,
        }
        true
    }

    pub(crate) fn activate(&mut self, client: usize) -> bool {
        let Some(task) = &self.drivers[client].task else { return false };
        let learnt = task.learnt.iter().filter(|learnt| **learnt).count();
        let asked = task.witnesses.iter().flatten().count();
        let needed = match task.bootstrap {
            true if self.setup.clocks_go_back => asked,
            true => 0,
            false => self.needed(),
        };
        if learnt < needed {
            return false;
        }
        let task = self.drivers[client].task.take().expect("it was there");
        let (node, machine) = (task.node, task.machine);
        let tagged = self.has(RulePart::ActivationTag);
        let setup = self.setup;
        let (top, takes_fences) = (self.top, self.has(RulePart::Fences));
        let (takes_claims, burns) = (self.has(RulePart::Claims), self.has(RulePart::Burnt));
        if self.is_enrolled(node, machine) {
            let server = self.server_mut(node, machine);
            let view = server.view.as_ref().expect("it is enrolled");
            let same_incarnation = view[node] == task.view[node];
            if same_incarnation && !server.active && (!tagged || *view == task.view) {
                (server.active, server.moved) = (true, false);
                let has_floor = task.bootstrap && !setup.clocks_go_back;
                let floor = if has_floor { top } else { task.fence };
                server.fence = server.fence.max(if takes_fences { floor } else { 0 });
                if takes_claims {
                    server.kept.learn(&task.kept);
                }
                server.kept.assumed_run |= task.bootstrap && burns;
                let why = if task.bootstrap { Lacks::Bootstrapped } else { Lacks::Learnt };
                server.kept.lacks = Some(why);
            }
        }
        true
    }
}
