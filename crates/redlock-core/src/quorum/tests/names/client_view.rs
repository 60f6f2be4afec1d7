//! A client's reads of the servers, its conclusions, and what it stores on them.

use std::sync::Arc;

use super::{
    activation::Activation,
    rule::RulePart,
    world::{CLIENTS, ModelDeparture, NAMES, NamesWorld, PerName, Tick},
};
use crate::protocol::views::{Incarnation, View};

/// One atomic look at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerRead {
    pub(crate) machine: usize,
    pub(crate) view: Arc<View>,
    pub(crate) active: bool,
    /// It was moved from another layout, which may still grant.
    pub(crate) moved: bool,
    pub(crate) left: Option<ModelDeparture>,
}

impl ServerRead {
    /// Returns the incarnation of the server of this name.
    pub(crate) fn own(&self, node: usize) -> Incarnation {
        self.view[node].expect("it is enrolled")
    }

    /// Returns whether the server is in a probation from which it may start by itself.
    pub(crate) fn starts(&self) -> bool {
        !self.active && !self.moved
    }
}

/// The wait for a server in probation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbationTimer {
    pub(crate) incarnation: Incarnation,
    /// The first sight of the incarnation in probation.
    pub(crate) seen: Tick,
    /// Since when enough active servers have its view.
    pub(crate) voters: Option<Tick>,
    /// Since when it and others that forgot along with it make up a quorum.
    pub(crate) starters: Option<Tick>,
    /// This client began to bootstrap it.
    pub(crate) bootstrapped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Displaced {
    pub(crate) incarnation: Incarnation,
    pub(crate) since: Tick,
    /// A connection that was opened since then led to the same server.
    pub(crate) reopened: bool,
}

/// A client's knowledge of the servers; a crash loses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientView {
    /// The machine that the connection leads to.
    pub(crate) conn: PerName<Option<usize>>,
    /// Whether the server was read on the present connection.
    pub(crate) in_sight: PerName<bool>,
    pub(crate) out_since: PerName<Tick>,
    /// The latest reads, kept while the server is out of sight.
    pub(crate) reads: PerName<Option<ServerRead>>,
    /// In which incarnation, and when, the name's server was last read in probation.
    pub(crate) starting: PerName<Option<(Incarnation, Tick)>>,
    pub(crate) highest: PerName<Option<Incarnation>>,
    /// Which names' servers belonged to another layout when they were last read.
    pub(crate) elsewhere: PerName<bool>,
    /// When it was last known that a set of another layout may grant.
    pub(crate) old_set_seen: Option<Tick>,
    /// All that servers replaced, without [`RulePart::GreaterOwner`].
    pub(crate) retired: Vec<Incarnation>,
    pub(crate) timers: PerName<Option<ProbationTimer>>,
    pub(crate) displaced: PerName<Option<Displaced>>,
    pub(crate) task: Option<Activation>,
}

impl ClientView {
    pub(crate) fn new(now: Tick) -> Self {
        const NONE: Option<ServerRead> = None;
        Self {
            conn: [None; NAMES],
            in_sight: [false; NAMES],
            out_since: [now; NAMES],
            reads: [NONE; NAMES],
            starting: [None; NAMES],
            highest: [None; NAMES],
            elsewhere: [false; NAMES],
            old_set_seen: None,
            retired: Vec::new(),
            timers: [None; NAMES],
            displaced: [None; NAMES],
            task: None,
        }
    }

    pub(crate) fn lose(&mut self, node: usize, now: Tick) {
        self.conn[node] = None;
        if std::mem::take(&mut self.in_sight[node]) {
            self.out_since[node] = now;
        }
    }

    /// Returns whether a server was seen of another layout that may still grant.
    pub(crate) fn has_old_set(&self) -> bool {
        self.elsewhere.contains(&true) || self.reads.iter().flatten().any(|read| read.moved)
    }

    /// Returns the latest read of a node that is in sight.
    pub(crate) fn in_sight(&self, node: usize) -> Option<&ServerRead> {
        self.reads[node].as_ref().filter(|_| self.in_sight[node])
    }

    /// Returns whether a greater incarnation than the one that was read is known for the name.
    pub(crate) fn is_displaced(&self, node: usize) -> bool {
        let read = self.reads[node].as_ref();
        read.and_then(|read| read.view[node])
            .is_some_and(|own| Some(own) < self.highest[node] || self.retired.contains(&own))
    }
}

impl NamesWorld {
    pub(crate) fn open(&mut self, client: usize, node: usize) -> bool {
        let (now, leads) = (self.client_now(client), Some(self.leads[client][node]));
        let driver = &mut self.drivers[client];
        let same = driver.conn[node] == leads;
        if !same {
            driver.lose(node, now);
            driver.conn[node] = leads;
        }
        match &mut driver.displaced[node] {
            Some(displaced) if same && !displaced.reopened => {
                displaced.reopened = true;
                true
            }
            _ => !same,
        }
    }

    pub(crate) fn look(&mut self, client: usize, node: usize) -> bool {
        let Some(machine) = self.drivers[client].conn[node] else { return false };
        if self.server(node, machine).elsewhere {
            return self.look_elsewhere(client, node);
        }
        let is_blank = self.server(node, machine).view.is_none();
        if is_blank && self.drivers[client].elsewhere[node] && self.has(RulePart::Elsewhere) {
            return false;
        }
        if !self.is_enrolled(node, machine) {
            self.enrol(node, machine, self.drivers[client].highest[node]);
        }
        let greater = self.has(RulePart::GreaterOwner);
        let (now, server) = (self.client_now(client), self.server(node, machine));
        let retired = server.retired.clone();
        let view = Arc::clone(server.view.as_ref().expect("it is enrolled"));
        let read = ServerRead {
            machine,
            view,
            active: server.active,
            moved: server.moved,
            left: server.left.clone(),
        };
        let driver = &mut self.drivers[client];
        let seen = driver.has_old_set().then_some(now).max(driver.old_set_seen);
        let before = (driver.in_sight[node], driver.starting[node], driver.old_set_seen);
        driver.in_sight[node] = true;
        driver.elsewhere[node] = false;
        driver.old_set_seen = seen;
        if read.starts() {
            driver.starting[node] = Some((read.own(node), now));
        }
        let after = (true, driver.starting[node], driver.old_set_seen);
        if driver.reads[node].as_ref() == Some(&read) && before == after {
            return false;
        }
        if greater {
            for (highest, owner) in driver.highest.iter_mut().zip(read.view.iter()) {
                *highest = (*highest).max(*owner);
            }
        }
        driver.retired.extend(retired);
        driver.reads[node] = Some(read);
        self.after_read(client);
        true
    }

    /// The client reads a server of another layout.
    fn look_elsewhere(&mut self, client: usize, node: usize) -> bool {
        let now = self.client_now(client);
        let driver = &mut self.drivers[client];
        let before = (driver.elsewhere[node], driver.in_sight[node], driver.old_set_seen);
        if driver.has_old_set() {
            driver.old_set_seen = Some(now);
        }
        (driver.elsewhere[node], driver.in_sight[node]) = (true, true);
        if before == (true, true, driver.old_set_seen) {
            return false;
        }
        (driver.reads[node], driver.timers[node], driver.displaced[node]) = (None, None, None);
        self.after_read(client);
        true
    }

    /// Starts and resets the timers by what is read now.
    fn after_read(&mut self, client: usize) {
        let now = self.client_now(client);
        for node in self.names() {
            let driver = &mut self.drivers[client];
            let is_displaced = driver.is_displaced(node);
            let Some(read) = &driver.reads[node] else { continue };
            let incarnation = read.own(node);
            driver.displaced[node] = is_displaced.then(|| {
                let before = driver.displaced[node].filter(|was| was.incarnation == incarnation);
                before.unwrap_or(Displaced { incarnation, since: now, reopened: false })
            });
            if read.active {
                driver.timers[node] = None;
                continue;
            }
            driver.timers[node].take_if(|timer| timer.incarnation != incarnation);
            let new = ProbationTimer {
                incarnation,
                seen: now,
                voters: None,
                starters: None,
                bootstrapped: false,
            };
            driver.timers[node].get_or_insert(new);
        }
        for node in self.names() {
            if self.drivers[client].timers[node].is_none() {
                continue;
            }
            let voters = self.witnesses(client, node, |_| true).len() >= self.needed();
            let starters = self.starters(client, node).len() + 1 >= self.quorum();
            if let Some(timer) = &mut self.drivers[client].timers[node] {
                timer.voters = voters.then(|| timer.voters.unwrap_or(now));
                timer.starters = starters.then(|| timer.starters.unwrap_or(now));
            }
        }
    }

    /// Returns the number of witnesses that a server in probation needs.
    pub(crate) fn needed(&self) -> usize {
        self.blocking() - usize::from(!self.has(RulePart::EnoughWitnesses))
    }

    /// Returns the other servers, of those that are `wanted`, that have the view of the server of
    /// `node`.
    pub(crate) fn group_around(
        &self,
        client: usize,
        node: usize,
        wanted: impl Fn(usize, &ServerRead) -> bool,
    ) -> Vec<usize> {
        let driver = &self.drivers[client];
        let Some(own) = &driver.reads[node] else { return Vec::new() };
        let agrees = |read: &ServerRead| !self.has(RulePart::Views) || own.view == read.view;
        let is_near = |&other: &usize| {
            let read = driver.reads[other].as_ref();
            other != node && read.is_some_and(|read| wanted(other, read) && agrees(read))
        };
        self.names().filter(is_near).collect()
    }

    /// Returns the servers that witness for one in probation, of those that are `wanted`.
    pub(crate) fn witnesses(
        &self,
        client: usize,
        node: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let any = !self.has(RulePart::ActiveWitnesses);
        self.group_around(client, node, |other, read| (read.active || any) && wanted(other))
    }

    /// Returns the servers that forgot along with one: they are in probation, or were so since its
    /// probation began, and are active by now.
    pub(crate) fn starters(&self, client: usize, node: usize) -> Vec<usize> {
        let driver = &self.drivers[client];
        let Some(timer) = driver.timers[node] else { return Vec::new() };
        let any = !self.has(RulePart::Starters);
        self.group_around(client, node, |other, read| {
            let together =
                |(incarnation, seen)| incarnation == read.own(other) && seen > timer.seen;
            any || read.starts() || (read.active && driver.starting[other].is_some_and(together))
        })
    }

    /// Returns whether every name's server is active and all know each other, and all clients have
    /// read it.
    pub(crate) fn is_whole(&self) -> bool {
        self.names().all(|node| {
            self.is_sound(node)
                && (0..CLIENTS).all(|client| {
                    let driver = &self.drivers[client];
                    driver.conn[node] == Some(self.leads[client][node])
                        && driver.in_sight(node).is_some_and(|read| {
                            read.active
                                && self.server(node, read.machine).view.as_ref() == Some(&read.view)
                        })
                })
        })
    }
}

/// What the client stores on the servers.
impl NamesWorld {
    pub(crate) fn reenrol(&mut self, client: usize, node: usize) -> bool {
        let driver = &self.drivers[client];
        let (Some(read), Some(displaced)) = (driver.in_sight(node), driver.displaced[node]) else {
            return false;
        };
        let due =
            displaced.reopened && self.client_now(client) >= displaced.since + self.setup.wait();
        let machine = read.machine;
        let stored = self.own(node, machine);
        if !due || stored != read.view[node] || !self.is_enrolled(node, machine) {
            return false;
        }
        let known = if self.has(RulePart::Epochs) { driver.highest[node] } else { None };
        self.enrol(node, machine, known);
        true
    }

    pub(crate) fn store(&mut self, client: usize, into: usize, of: usize) -> bool {
        let driver = &self.drivers[client];
        let (Some(target), Some(read)) = (driver.in_sight(into), driver.in_sight(of)) else {
            return false;
        };
        if into == of || driver.is_displaced(of) || !self.is_enrolled(into, target.machine) {
            return false;
        }
        let (machine, owner) = (target.machine, read.own(of));
        if !self.has(RulePart::GreaterOwner) {
            let seen = Arc::clone(&target.view);
            let server = self.server_mut(into, machine);
            if server.view.as_ref() == Some(&seen) {
                server.replace(of, owner);
            }
            return server.view.as_ref() != Some(&seen);
        }
        let stored = self.server(into, machine).view.as_ref().map(|view| view[of]);
        if stored.is_some_and(|stored| stored >= Some(owner)) {
            return false;
        }
        self.server_mut(into, machine).store(of, owner);
        true
    }

    /// Stores into a server the greatest owner of each name that the client knows.
    pub(crate) fn merge(&mut self, client: usize, node: usize) -> bool {
        let driver = &self.drivers[client];
        let Some(read) = driver.in_sight(node).filter(|_| !driver.is_displaced(node)) else {
            return false;
        };
        let machine = read.machine;
        if !self.is_enrolled(node, machine) || !self.has(RulePart::GreaterOwner) {
            return false;
        }
        let before = self.server(node, machine).view.clone();
        let highest = driver.highest;
        for other in self.names().filter(|&other| other != node) {
            if let Some(owner) = highest[other] {
                self.server_mut(node, machine).store(other, owner);
            }
        }
        self.server(node, machine).view != before
    }
}
