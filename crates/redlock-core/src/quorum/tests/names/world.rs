//! The servers, the names that lead to them, and what goes wrong.

use std::sync::Arc;

use super::{
    client_view::ClientView,
    clocks::ModelClock,
    copies::Copy,
    faults::FaultBudget,
    groups::GrantGroup,
    lock::ModelLease,
    rule::RulePart,
    step::Violation,
    work::{ClientWork, StoredWork, WorkKind},
};
use crate::protocol::views::{Incarnation, View};

/// The most names of a set.
pub(crate) const NAMES: usize = 5;
/// How many clients there are: each takes locks, and each drives the changes.
pub(crate) const CLIENTS: usize = 2;

pub(crate) type Tick = u16;
pub(crate) type PerName<T> = [T; NAMES];

/// One machine under a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelServer {
    /// Its enrolment and the owners that it stores; `None` while it is blank.
    pub(crate) view: Option<Arc<View>>,
    pub(crate) active: bool,
    /// The owners that it replaced, without [`RulePart::GreaterOwner`].
    pub(crate) retired: Vec<Incarnation>,
    /// Counts the restarts.
    pub(crate) run: u8,
    pub(crate) key: Option<WorldKey>,
    pub(crate) fence: u16,
    /// What it keeps of the clients' work.
    pub(crate) kept: StoredWork,
    /// It belongs to another layout, under which it has a view; here it has none.
    pub(crate) elsewhere: bool,
    /// It was moved here from a set that may still grant.
    pub(crate) moved: bool,
    /// How it left the other layout.
    pub(crate) left: Option<ModelDeparture>,
}

/// How a server left a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelDeparture {
    pub(crate) layout: usize,
    /// The index of its name there.
    pub(crate) node: usize,
    /// It was taken over by a client; otherwise an operator moved it.
    pub(crate) taken_over: bool,
    /// Its view, if it voted.
    pub(crate) view: Option<Arc<View>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorldKey {
    pub(crate) lease: u16,
    pub(crate) expires: Tick,
}

impl ModelServer {
    /// Stores `owner` for the name of `node`, unless a greater one is there.
    pub(crate) fn store(&mut self, node: usize, owner: Incarnation) {
        if let Some(view) = &mut self.view
            && view[node] < Some(owner)
        {
            Arc::make_mut(view)[node] = Some(owner);
        }
    }

    /// Replaces the owner of the name of `node`, unless `owner` was replaced before.
    pub(crate) fn replace(&mut self, node: usize, owner: Incarnation) {
        if let Some(view) = &mut self.view
            && view[node] != Some(owner)
            && !self.retired.contains(&owner)
        {
            self.retired.extend(Arc::make_mut(view)[node].replace(owner));
        }
    }

    /// Returns the lease whose key is stored here.
    pub(crate) fn lease(&self, now: Tick) -> Option<u16> {
        self.key.filter(|key| now < key.expires).map(|key| key.lease)
    }
}

#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault that may be or not")]
pub(crate) struct NamesSetup {
    pub(crate) names: usize,
    /// Machines under each name.
    pub(crate) machines: usize,
    /// The TTL of all locks, in ticks.
    pub(crate) ttl: Tick,
    /// By how many ticks two clocks may differ after a TTL: 0 or 1.
    pub(crate) drift: Tick,
    /// The part of the rule that is left out.
    pub(crate) without: Option<RulePart>,
    pub(crate) faults: FaultBudget,
    /// Maximum number of names that change during the change of one, itself included, while the
    /// former server of a name may be alive.
    pub(crate) at_once: usize,
    /// Whether the set has never been started.
    pub(crate) blank: bool,
    /// Whether the clients' look-ups may return different machines.
    pub(crate) split_lookups: bool,
    /// Whether the clients take locks; otherwise the groups that could grant one are watched.
    pub(crate) locks: bool,
    /// What the clients do under their locks.
    pub(crate) work: Option<WorkKind>,
    /// Whether a change of a name ends before its server has all records. What no server keeps any
    /// more may be lost then.
    pub(crate) changes_while_copying: bool,
    /// Whether it is one layout of two, of which `layouts` keeps the limits.
    pub(crate) is_layout: bool,
    /// Whether the servers' clocks go back: a bootstrap has no floor for its tokens.
    pub(crate) clocks_go_back: bool,
    /// Whether votes are two plain commands at first.
    pub(crate) plain: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct NamesWorld {
    pub(crate) setup: NamesSetup,
    /// The time by the slowest clock.
    pub(crate) now: Tick,
    /// The clocks of the clients, then of the servers.
    pub(crate) clocks: Vec<ModelClock>,
    pub(crate) servers: Vec<ModelServer>,
    /// Where each client's look-ups lead.
    pub(crate) leads: [PerName<usize>; CLIENTS],
    pub(crate) drivers: [ClientView; CLIENTS],
    pub(crate) leases: [Option<ModelLease>; CLIENTS],
    /// The largest fence that each client knows.
    pub(crate) known: [u16; CLIENTS],
    pub(crate) issued: Vec<u16>,
    pub(crate) jobs: [Option<ClientWork>; CLIENTS],
    pub(crate) copies: [Option<Copy>; CLIENTS],
    /// The lease whose record, or claim of the tick, a quorum kept.
    pub(crate) done: Option<u16>,
    pub(crate) groups: Vec<GrantGroup>,
    /// The largest number that was ever proposed.
    pub(crate) top: u16,
    pub(crate) enrolments: u64,
    pub(crate) attempts: u16,
    pub(crate) left: FaultBudget,
    /// The names that changed during the change of each, itself included; one bit for each.
    pub(crate) changed_during: PerName<u8>,
    pub(crate) violation: Option<Violation>,
}

impl NamesWorld {
    pub(crate) fn new(setup: NamesSetup) -> Self {
        let mut world = Self {
            setup,
            now: 0,
            clocks: vec![ModelClock::default(); CLIENTS + setup.names * setup.machines],
            servers: vec![ModelServer::default(); setup.names * setup.machines],
            leads: [[0; NAMES]; CLIENTS],
            drivers: std::array::from_fn(|_| ClientView::new(0)),
            leases: std::array::from_fn(|_| None),
            known: [0; CLIENTS],
            issued: Vec::new(),
            jobs: std::array::from_fn(|_| None),
            copies: [None; CLIENTS],
            done: None,
            groups: Vec::new(),
            top: 0,
            enrolments: 0,
            attempts: 0,
            left: setup.faults,
            changed_during: [0; NAMES],
            violation: None,
        };
        for client in 0..CLIENTS {
            for node in 0..setup.names {
                world.drivers[client].conn[node] = Some(0);
            }
        }
        if !setup.blank {
            let first: Arc<View> =
                (0..setup.names).map(|node| Some(world.incarnation(node, 0, 1))).collect();
            for node in 0..setup.names {
                let server = world.server_mut(node, 0);
                (server.view, server.active) = (Some(Arc::clone(&first)), true);
            }
            for client in 0..CLIENTS {
                (0..setup.names).for_each(|node| {
                    world.look(client, node);
                });
            }
            if !setup.locks && !setup.is_layout {
                world.note_groups();
            }
        }
        world
    }

    pub(crate) fn names(&self) -> std::ops::Range<usize> {
        0..self.setup.names
    }

    pub(crate) fn quorum(&self) -> usize {
        crate::protocol::formulas::quorum(self.setup.names)
    }

    /// N−q+1: so many nodes have one of each quorum among them.
    pub(crate) fn blocking(&self) -> usize {
        self.setup.names - self.quorum() + 1
    }

    pub(crate) fn has(&self, part: RulePart) -> bool {
        self.setup.without != Some(part)
    }

    pub(crate) fn server(&self, node: usize, machine: usize) -> &ModelServer {
        &self.servers[node * self.setup.machines + machine]
    }

    pub(crate) fn server_mut(&mut self, node: usize, machine: usize) -> &mut ModelServer {
        &mut self.servers[node * self.setup.machines + machine]
    }

    fn run_id(&self, node: usize, machine: usize) -> u128 {
        let run = self.server(node, machine).run;
        ((node * self.setup.machines + machine) * 256 + usize::from(run)) as u128
    }

    pub(crate) fn incarnation(&mut self, node: usize, machine: usize, epoch: u32) -> Incarnation {
        self.enrolments += 1;
        Incarnation { epoch, id: self.run_id(node, machine), nonce: self.enrolments }
    }

    /// Returns the incarnation under which a server was enrolled.
    pub(crate) fn own(&self, node: usize, machine: usize) -> Option<Incarnation> {
        self.server(node, machine).view.as_ref()?[node]
    }

    /// Returns whether the server was enrolled in its present run.
    pub(crate) fn is_enrolled(&self, node: usize, machine: usize) -> bool {
        let own = self.own(node, machine);
        own.is_some_and(|own| own.id == self.run_id(node, machine) || !self.has(RulePart::OwnRun))
    }

    /// Enrols a server into a probation; it keeps what it stores.
    pub(crate) fn enrol(&mut self, node: usize, machine: usize, known: Option<Incarnation>) {
        let epoch = |of: Option<Incarnation>| of.map_or(0, |incarnation| incarnation.epoch);
        let greatest = epoch(known).max(epoch(self.own(node, machine)));
        let incarnation = self.incarnation(node, machine, greatest + 1);
        let names = self.setup.names;
        let server = self.server_mut(node, machine);
        let view = server.view.get_or_insert_with(|| vec![None; names].into());
        Arc::make_mut(view)[node] = Some(incarnation);
        server.active = false;
    }

    /// Returns whether all look-ups of a name lead to one active server, and it and the other
    /// names' active servers know each other.
    pub(crate) fn is_sound(&self, node: usize) -> bool {
        let active = |node: usize| {
            let machine = self.leads[0][node];
            let agreed = self.leads.iter().all(|leads| leads[node] == machine);
            let server = self.server(node, machine);
            (agreed && self.is_enrolled(node, machine) && server.active)
                .then(|| server.view.as_ref().expect("it is enrolled"))
        };
        let Some(own) = active(node) else { return false };
        self.names().all(|other| {
            active(other).is_none_or(|view| own[other] == view[other] && own[node] == view[node])
        })
    }
}
