//! What a client reads of the servers, and how it drives a change of a name.

use std::sync::Arc;

use super::{
    rule::Part,
    world::{CLIENTS, NAMES, PerName, Tick, World},
};
use crate::quorum::names::{Incarnation, Member, View, largest_group, name_each_other};

/// One atomic look at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) machine: usize,
    pub(super) view: Arc<View>,
    pub(super) active: bool,
}

/// Since when a server in probation is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timer {
    pub(super) incarnation: Incarnation,
    /// The first sight of the incarnation in probation.
    pub(super) seen: Tick,
    /// Since when the condition holds, and whether it is that of a start without active others.
    pub(super) since: Option<(Tick, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Displaced {
    pub(super) incarnation: Incarnation,
    pub(super) since: Tick,
    /// A connection that was opened since then led to the same server.
    pub(super) reopened: bool,
}

/// An activation under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) node: usize,
    pub(super) machine: usize,
    pub(super) view: Arc<View>,
    /// The witnesses as they were read; none for a start without active others.
    pub(super) witnesses: PerName<Option<Read>>,
    pub(super) bootstrap: bool,
    /// Whose fences were read.
    pub(super) learnt: PerName<bool>,
    pub(super) fence: u16,
}

/// A client's knowledge of the servers; a crash loses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Driver {
    /// The machine that the connection leads to.
    pub(super) conn: PerName<Option<usize>>,
    pub(super) out_since: PerName<Tick>,
    pub(super) reads: PerName<Option<Read>>,
    pub(super) highest: PerName<Option<Incarnation>>,
    pub(super) timers: PerName<Option<Timer>>,
    pub(super) displaced: PerName<Option<Displaced>>,
    pub(super) task: Option<Task>,
}

impl Driver {
    pub(super) fn new() -> Self {
        const NONE: Option<Read> = None;
        Self {
            conn: [None; NAMES],
            out_since: [0; NAMES],
            reads: [NONE; NAMES],
            highest: [None; NAMES],
            timers: [None; NAMES],
            displaced: [None; NAMES],
            task: None,
        }
    }

    pub(super) fn lose(&mut self, node: usize, now: Tick) {
        self.conn[node] = None;
        self.out_since[node] = now;
    }

    /// The latest read of a node that is still connected to the same machine.
    fn connected(&self, node: usize) -> Option<&Read> {
        self.reads[node].as_ref().filter(|read| self.conn[node] == Some(read.machine))
    }

    /// Whether a greater incarnation than the one that was read is known for the name.
    pub(super) fn is_displaced(&self, node: usize) -> bool {
        let read = self.reads[node].as_ref();
        read.is_some_and(|read| Some(read.view.incarnation) < self.highest[node])
    }
}

impl World {
    pub(super) fn open(&mut self, client: usize, node: usize) -> bool {
        let leads = Some(self.leads[client][node]);
        let driver = &mut self.drivers[client];
        let same = driver.conn[node] == leads;
        driver.conn[node] = leads;
        match &mut driver.displaced[node] {
            Some(displaced) if same && !displaced.reopened => {
                displaced.reopened = true;
                true
            }
            _ => !same,
        }
    }

    pub(super) fn look(&mut self, client: usize, node: usize) -> bool {
        let Some(machine) = self.drivers[client].conn[node] else { return false };
        let enrols = !self.is_enrolled(node, machine);
        if enrols {
            self.enrol(node, machine, self.drivers[client].highest[node]);
        }
        let server = self.server(node, machine);
        let view = Arc::clone(server.view.as_ref().expect("it is enrolled"));
        let read = Read { machine, view, active: server.active };
        let driver = &mut self.drivers[client];
        if driver.reads[node].as_ref() == Some(&read) && !enrols {
            return false;
        }
        driver.highest[node] = driver.highest[node].max(Some(read.view.incarnation));
        for (highest, owner) in driver.highest.iter_mut().zip(&read.view.owners) {
            *highest = (*highest).max(*owner);
        }
        driver.reads[node] = Some(read);
        self.after_read(client);
        true
    }

    /// Starts and resets the timers by what is read now.
    fn after_read(&mut self, client: usize) {
        let now = self.now;
        for node in self.names() {
            let condition = self.condition(client, node);
            let driver = &mut self.drivers[client];
            let is_displaced = driver.is_displaced(node);
            let Some(read) = &driver.reads[node] else { continue };
            let incarnation = read.view.incarnation;
            driver.displaced[node] = is_displaced.then(|| {
                let before = driver.displaced[node].filter(|was| was.incarnation == incarnation);
                before.unwrap_or(Displaced { incarnation, since: now, reopened: false })
            });
            if read.active {
                driver.timers[node] = None;
                continue;
            }
            let before = driver.timers[node].filter(|timer| timer.incarnation == incarnation);
            let mut timer = before.unwrap_or(Timer { incarnation, seen: now, since: None });
            timer.since = condition.map(|bootstrap| match timer.since {
                Some((since, same)) if same == bootstrap => (since, same),
                _ => (now, bootstrap),
            });
            driver.timers[node] = Some(timer);
        }
    }

    /// Whether a server in probation may be waited for; true if without active others.
    fn condition(&self, client: usize, node: usize) -> Option<bool> {
        let driver = &self.drivers[client];
        let read = driver.reads[node].as_ref()?;
        if read.active || (self.has(Part::DisplacedNotDriven) && driver.is_displaced(node)) {
            return None;
        }
        if self.witnesses(client, node).len() >= self.needed() {
            return Some(false);
        }
        (self.setup.rule.bootstrap && self.starts(client, node).is_some()).then_some(true)
    }

    fn needed(&self) -> usize {
        self.blocking() - usize::from(!self.has(Part::EnoughWitnesses))
    }

    /// A largest group of servers that witness for `node`.
    fn witnesses(&self, client: usize, node: usize) -> Vec<usize> {
        let driver = &self.drivers[client];
        let Some(read) = &driver.reads[node] else { return Vec::new() };
        let views = self.has(Part::Views);
        let mut members: Vec<Member<'_>> = Vec::with_capacity(self.setup.names);
        for other in self.names().filter(|&other| other != node) {
            let Some(witness) = &driver.reads[other] else { continue };
            let active = witness.active || !self.has(Part::ActiveWitnesses);
            let names = name_each_other((node, &read.view), (other, &witness.view));
            let thirds = self.names().filter(|&third| third != node && third != other);
            let has_owners = !self.has(Part::Merge)
                || thirds
                    .into_iter()
                    .all(|third| read.view.owners[third] >= witness.view.owners[third]);
            if active && (!views || (names && has_owners)) {
                let agree = views && self.has(Part::AgreeingWitnesses);
                members.push((other, agree.then_some(&witness.view)));
            }
        }
        if members.len() < self.needed() {
            return Vec::new();
        }
        largest_group(&members).iter().map(|member| member.0).collect()
    }

    /// The group with which a server may start where fewer than N−q+1 others are active.
    fn starts(&self, client: usize, node: usize) -> Option<Vec<usize>> {
        let driver = &self.drivers[client];
        let read = driver.connected(node)?;
        let others = || self.names().filter(|&other| other != node);
        let active = others().filter(|&other| driver.connected(other).is_some_and(|r| r.active));
        if active.count() >= self.blocking() {
            return None;
        }
        let members: Vec<Member<'_>> = others()
            .filter_map(|other| Some((other, Some(&driver.connected(other)?.view))))
            .filter(|&(other, view)| {
                view.is_some_and(|view| name_each_other((node, &read.view), (other, view)))
            })
            .collect();
        let group: Vec<_> = largest_group(&members).iter().map(|member| member.0).collect();
        let least = if self.has(Part::WholeStarts) { self.blocking() + 1 } else { self.quorum() };
        (group.len() + 1 >= least).then_some(group)
    }

    /// Whether those that are missing from a small group have been out of sight for long enough.
    fn missing_are_out(&self, client: usize, node: usize, group: &[usize]) -> bool {
        let driver = &self.drivers[client];
        group.len() > self.blocking() - 1
            || self.names().filter(|other| *other != node && !group.contains(other)).all(|other| {
                driver.conn[other].is_none() && self.now >= driver.out_since[other] + self.setup.ttl
            })
    }

    pub(super) fn reenrol(&mut self, client: usize, node: usize) -> bool {
        let driver = &self.drivers[client];
        let (Some(read), Some(displaced)) = (driver.connected(node), driver.displaced[node]) else {
            return false;
        };
        let due = displaced.reopened && self.now >= displaced.since + self.setup.ttl;
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
        let (Some(target), Some(read)) = (driver.connected(into), driver.connected(of)) else {
            return false;
        };
        if into == of || driver.is_displaced(of) || !self.is_enrolled(into, target.machine) {
            return false;
        }
        let (machine, owner) = (target.machine, read.view.incarnation);
        let stored = self.server(into, machine).view.as_ref().map(|view| view.owners[of]);
        if stored.is_some_and(|stored| stored >= Some(owner)) {
            return false;
        }
        self.server_mut(into, machine).store(of, owner);
        true
    }

    pub(super) fn merge(&mut self, client: usize, node: usize) -> bool {
        let driver = &self.drivers[client];
        let Some(read) = driver.connected(node) else { return false };
        let machine = read.machine;
        if read.active || !self.is_enrolled(node, machine) || !self.has(Part::Merge) {
            return false;
        }
        let before = self.server(node, machine).view.clone();
        let mut server = self.server(node, machine).clone();
        for other in self.names().filter(|&other| other != node) {
            let Some(active) = driver.connected(other).filter(|read| read.active) else { continue };
            server.store(other, active.view.incarnation);
            for third in self.names().filter(|&third| third != node) {
                if let Some(owner) = active.view.owners[third] {
                    server.store(third, owner);
                }
            }
        }
        let changed = server.view != before;
        *self.server_mut(node, machine) = server;
        changed
    }

    pub(super) fn begin(&mut self, client: usize, node: usize) -> bool {
        let driver = &self.drivers[client];
        let (Some(read), Some(timer)) = (driver.connected(node), driver.timers[node]) else {
            return false;
        };
        let Some((since, bootstrap)) = timer.since else { return false };
        let from = if self.has(Part::Wait) { since } else { timer.seen };
        if driver.task.is_some() || self.now < from + self.setup.ttl {
            return false;
        }
        let group = if bootstrap {
            let Some(group) = self.starts(client, node) else { return false };
            if !self.missing_are_out(client, node, &group) {
                return false;
            }
            group
        } else {
            self.witnesses(client, node)
        };
        let mut witnesses: PerName<Option<Read>> = std::array::from_fn(|_| None);
        for other in group {
            witnesses[other].clone_from(&driver.reads[other]);
        }
        let task = Task {
            node,
            machine: read.machine,
            view: Arc::clone(&read.view),
            witnesses,
            bootstrap,
            learnt: [false; NAMES],
            fence: 0,
        };
        self.drivers[client].task = Some(task);
        true
    }

    pub(super) fn fence(&mut self, client: usize, node: usize) -> bool {
        let driver = &self.drivers[client];
        let Some(task) = &driver.task else { return false };
        let Some(witness) = &task.witnesses[node] else { return false };
        if task.learnt[node] {
            return false;
        }
        let server = self.server(node, witness.machine);
        let same = driver.conn[node] == Some(witness.machine)
            && self.is_enrolled(node, witness.machine)
            && (!self.has(Part::WitnessTags)
                || (server.active == witness.active && server.view.as_ref() == Some(&witness.view)));
        let fence = server.fence;
        let slot = &mut self.drivers[client].task;
        match slot {
            Some(task) if same => {
                task.learnt[node] = true;
                task.fence = task.fence.max(fence);
            }
            _ => *slot = None,
        }
        true
    }

    pub(super) fn activate(&mut self, client: usize) -> bool {
        let Some(task) = &self.drivers[client].task else { return false };
        let learnt = task.learnt.iter().filter(|learnt| **learnt).count();
        if !task.bootstrap && learnt < self.needed() {
            return false;
        }
        let task = self.drivers[client].task.take().expect("it was there");
        let (node, machine) = (task.node, task.machine);
        let tagged = self.has(Part::ActivationTag);
        let (top, learns) = (self.top, self.has(Part::Fences));
        if self.is_enrolled(node, machine) {
            let server = self.server_mut(node, machine);
            let view = server.view.as_ref().expect("it is enrolled");
            let same_incarnation = view.incarnation == task.view.incarnation;
            if same_incarnation && !server.active && (!tagged || *view == task.view) {
                server.active = true;
                let floor = if task.bootstrap { top } else { task.fence };
                server.fence = server.fence.max(if learns { floor } else { 0 });
            }
        }
        true
    }

    /// Whether every name's server is active and all name each other, and all clients have read it.
    pub(super) fn is_whole(&self) -> bool {
        self.names().all(|node| {
            self.is_sound(node)
                && (0..CLIENTS).all(|client| {
                    let driver = &self.drivers[client];
                    driver.conn[node] == Some(self.leads[client][node])
                        && driver.connected(node).is_some_and(|read| {
                            read.active
                                && self.server(node, read.machine).view.as_ref() == Some(&read.view)
                        })
                })
        })
    }
}
