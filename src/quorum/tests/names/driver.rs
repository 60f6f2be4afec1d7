//! What a client reads of the servers, and what it makes of it.

use std::sync::Arc;

use super::{
    activation::Task,
    rule::Part,
    world::{CLIENTS, Left, NAMES, PerName, Tick, World},
};
use crate::protocol::names::{Incarnation, Member, View, largest_group, name_each_other};

/// One atomic look at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) machine: usize,
    pub(super) view: Arc<View>,
    pub(super) active: bool,
    /// It was moved from another layout, which may still grant.
    pub(super) moved: bool,
    pub(super) left: Option<Left>,
}

impl Read {
    /// Whether the server is in a probation from which it may start by itself.
    pub(super) fn starts(&self) -> bool {
        !self.active && !self.moved
    }
}

/// The wait for a server in probation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timer {
    pub(super) incarnation: Incarnation,
    /// The first sight of the incarnation in probation.
    pub(super) seen: Tick,
    /// Since when enough active servers name it and each other.
    pub(super) voters: Option<Tick>,
    /// Since when it and others that forgot along with it make up a quorum.
    pub(super) starters: Option<Tick>,
    /// This client began to bootstrap it.
    pub(super) bootstrapped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Displaced {
    pub(super) incarnation: Incarnation,
    pub(super) since: Tick,
    /// A connection that was opened since then led to the same server.
    pub(super) reopened: bool,
}

/// A client's knowledge of the servers; a crash loses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Driver {
    /// The machine that the connection leads to.
    pub(super) conn: PerName<Option<usize>>,
    /// Whether the server was read on the present connection.
    pub(super) in_sight: PerName<bool>,
    pub(super) out_since: PerName<Tick>,
    /// The latest reads, kept while the server is out of sight.
    pub(super) reads: PerName<Option<Read>>,
    /// In which incarnation, and when, the name's server was last read in probation.
    pub(super) starting: PerName<Option<(Incarnation, Tick)>>,
    pub(super) highest: PerName<Option<Incarnation>>,
    /// Which names' servers belonged to another layout when they were last read.
    pub(super) elsewhere: PerName<bool>,
    /// When it was last known that a set of another layout may grant.
    pub(super) old_set_seen: Option<Tick>,
    /// All that servers replaced, without [`Part::GreaterOwner`].
    pub(super) retired: Vec<Incarnation>,
    pub(super) timers: PerName<Option<Timer>>,
    pub(super) displaced: PerName<Option<Displaced>>,
    pub(super) task: Option<Task>,
}

impl Driver {
    pub(super) fn new(now: Tick) -> Self {
        const NONE: Option<Read> = None;
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

    pub(super) fn lose(&mut self, node: usize, now: Tick) {
        self.conn[node] = None;
        if std::mem::take(&mut self.in_sight[node]) {
            self.out_since[node] = now;
        }
    }

    /// Whether a server was seen of another layout that may still grant.
    pub(super) fn has_old_set(&self) -> bool {
        self.elsewhere.contains(&true) || self.reads.iter().flatten().any(|read| read.moved)
    }

    /// The latest read of a node that is in sight.
    pub(super) fn in_sight(&self, node: usize) -> Option<&Read> {
        self.reads[node].as_ref().filter(|_| self.in_sight[node])
    }

    /// Whether a greater incarnation than the one that was read is known for the name.
    pub(super) fn is_displaced(&self, node: usize) -> bool {
        let read = self.reads[node].as_ref();
        read.map(|read| read.view.incarnation)
            .is_some_and(|own| Some(own) < self.highest[node] || self.retired.contains(&own))
    }
}

impl World {
    pub(super) fn open(&mut self, client: usize, node: usize) -> bool {
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

    pub(super) fn look(&mut self, client: usize, node: usize) -> bool {
        let Some(machine) = self.drivers[client].conn[node] else { return false };
        if self.server(node, machine).elsewhere {
            return self.look_elsewhere(client, node);
        }
        let is_blank = self.server(node, machine).view.is_none();
        if is_blank && self.drivers[client].elsewhere[node] && self.has(Part::Elsewhere) {
            return false;
        }
        if !self.is_enrolled(node, machine) {
            self.enrol(node, machine, self.drivers[client].highest[node]);
        }
        if self.has(Part::OldVotes) {
            self.server_mut(node, machine).is_old = false;
        }
        let greater = self.has(Part::GreaterOwner);
        let (now, server) = (self.client_now(client), self.server(node, machine));
        let retired = server.retired.clone();
        let view = Arc::clone(server.view.as_ref().expect("it is enrolled"));
        let read = Read {
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
            driver.starting[node] = Some((read.view.incarnation, now));
        }
        let after = (true, driver.starting[node], driver.old_set_seen);
        if driver.reads[node].as_ref() == Some(&read) && before == after {
            return false;
        }
        if greater {
            driver.highest[node] = driver.highest[node].max(Some(read.view.incarnation));
            for (highest, owner) in driver.highest.iter_mut().zip(&read.view.owners) {
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
            let incarnation = read.view.incarnation;
            driver.displaced[node] = is_displaced.then(|| {
                let before = driver.displaced[node].filter(|was| was.incarnation == incarnation);
                before.unwrap_or(Displaced { incarnation, since: now, reopened: false })
            });
            if read.active {
                driver.timers[node] = None;
                continue;
            }
            driver.timers[node].take_if(|timer| timer.incarnation != incarnation);
            let new =
                Timer { incarnation, seen: now, voters: None, starters: None, bootstrapped: false };
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

    /// How many servers witness for one in probation.
    pub(super) fn needed(&self) -> usize {
        self.blocking() - usize::from(!self.has(Part::EnoughWitnesses))
    }

    /// A largest group of other servers, of those that are `wanted`, that name the server of
    /// `node`, are named by it, and name each other; it knows every owner that they know.
    pub(super) fn group_around(
        &self,
        client: usize,
        node: usize,
        wanted: impl Fn(usize, &Read) -> bool,
    ) -> Vec<usize> {
        let driver = &self.drivers[client];
        let Some(own) = &driver.reads[node] else { return Vec::new() };
        let (views, merge) = (self.has(Part::Views), self.has(Part::Merge));
        let greater = self.has(Part::GreaterOwner);
        let agree = views && self.has(Part::AgreeingWitnesses);
        let mut members: Vec<Member<'_>> = Vec::with_capacity(self.setup.names);
        for other in self.names().filter(|&other| other != node) {
            let Some(read) = driver.reads[other].as_ref().filter(|read| wanted(other, read)) else {
                continue;
            };
            let is_behind = |third: usize| {
                let (own, other) = (own.view.owners[third], read.view.owners[third]);
                if greater { own < other } else { own != other }
            };
            let mut thirds = self.names().filter(|&third| third != node && third != other);
            let near = name_each_other((node, &own.view), (other, &read.view))
                && !(merge && thirds.any(is_behind));
            if near || !views {
                members.push((other, agree.then_some(&read.view)));
            }
        }
        largest_group(&members).iter().map(|member| member.0).collect()
    }

    /// The servers that witness for one in probation, of those that are `wanted`.
    pub(super) fn witnesses(
        &self,
        client: usize,
        node: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let any = !self.has(Part::ActiveWitnesses);
        self.group_around(client, node, |other, read| (read.active || any) && wanted(other))
    }

    /// The servers that forgot along with one: they are in probation, or were so since its
    /// probation began, and are active by now.
    pub(super) fn starters(&self, client: usize, node: usize) -> Vec<usize> {
        let driver = &self.drivers[client];
        let Some(timer) = driver.timers[node] else { return Vec::new() };
        let any = !self.has(Part::Starters);
        self.group_around(client, node, |other, read| {
            let together =
                |(incarnation, seen)| incarnation == read.view.incarnation && seen > timer.seen;
            any || read.starts() || (read.active && driver.starting[other].is_some_and(together))
        })
    }

    /// Whether every name's server is active and all name each other, and all clients have read it.
    pub(super) fn is_whole(&self) -> bool {
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
