//! The layouts, and what they have in common.

use super::moving::Operator;
use crate::quorum::tests::names::{
    groups::GrantGroup,
    rule::RulePart,
    step::Violation,
    world::{CLIENTS, ModelServer, NamesSetup, NamesWorld},
};

/// Layouts of servers that they share, the first of which is in use at the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayoutPlan {
    /// The servers' names of each layout.
    pub(super) layouts: &'static [&'static [usize]],
    /// From which layout to which operators move servers.
    pub(super) moves: &'static [(usize, usize)],
    /// Whether clients take over servers of unused layouts.
    pub(super) takeover: bool,
    /// Number of times that an operator may begin.
    pub(super) commands: u8,
    /// Whether clients of later layouts start only once a command began these.
    pub(super) starts_late: bool,
    /// How many names may move or restart.
    pub(super) at_once: u32,
    /// The faults, and how it is watched.
    pub(super) setup: NamesSetup,
}

/// The layout that a server belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LayoutTag {
    pub(super) layout: usize,
    pub(super) epoch: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Layouts {
    pub(super) plan: LayoutPlan,
    pub(super) worlds: Vec<NamesWorld>,
    /// The layout of each server, by name and machine.
    pub(super) tags: Vec<Option<LayoutTag>>,
    pub(super) operators: [Operator; CLIENTS],
    pub(super) commands: u8,
    /// The names that moved or restarted since a layout was whole; one bit for each.
    pub(super) disturbed: u32,
    /// The layouts that begin: no name moves until they are whole. One bit for each.
    pub(super) beginning: u32,
    /// The layouts whose clients may act; one bit for each.
    pub(super) started: u32,
    pub(super) groups: Vec<GrantGroup>,
    pub(super) violation: Option<Violation>,
}

impl Layouts {
    pub(super) fn new(plan: LayoutPlan) -> Self {
        let world = |(layout, names): (usize, &&[usize])| {
            NamesWorld::new(NamesSetup { names: names.len(), blank: layout > 0, ..plan.setup })
        };
        let names = plan.layouts.iter().flat_map(|names| names.iter()).max();
        let servers = (names.expect("there are names") + 1) * plan.setup.machines;
        let mut layouts = Self {
            plan,
            worlds: plan.layouts.iter().enumerate().map(world).collect(),
            tags: vec![None; servers],
            operators: Default::default(),
            commands: plan.commands,
            disturbed: 0,
            beginning: 0,
            started: if plan.starts_late { 1 } else { u32::MAX },
            groups: Vec::new(),
            violation: None,
        };
        layouts.share(0);
        layouts.watch();
        layouts
    }

    pub(super) fn has(&self, part: RulePart) -> bool {
        self.plan.setup.without != Some(part)
    }

    /// A server by the index of its name in a layout.
    pub(super) fn server_at(&self, layout: usize, node: usize, machine: usize) -> usize {
        self.plan.layouts[layout][node] * self.plan.setup.machines + machine
    }

    /// Returns the index of a name in a layout.
    pub(super) fn node_in(&self, layout: usize, name: usize) -> Option<usize> {
        self.plan.layouts[layout].iter().position(|&other| other == name)
    }

    /// Copies the effects of a step on the servers of one layout to the others.
    pub(super) fn share(&mut self, from: usize) {
        for node in 0..self.plan.layouts[from].len() {
            for machine in 0..self.plan.setup.machines {
                let server = self.worlds[from].server(node, machine).clone();
                let at = self.server_at(from, node, machine);
                if let Some(own) = server.view.as_ref().and_then(|view| view[node]) {
                    self.tags[at] = Some(LayoutTag { layout: from, epoch: own.epoch });
                } else if !server.elsewhere {
                    self.tags[at] = None;
                }
                self.share_server(from, at, &server);
            }
        }
        let (attempts, top, enrolments) = {
            let world = &self.worlds[from];
            (world.attempts, world.top, world.enrolments)
        };
        let (issued, now) = (self.worlds[from].issued.clone(), self.worlds[from].now);
        for world in &mut self.worlds {
            (world.attempts, world.top, world.enrolments) = (attempts, top, enrolments);
            world.issued.clone_from(&issued);
            world.now = now;
        }
    }

    /// Copies a server's data to the layouts other than `from`.
    pub(super) fn share_server(&mut self, from: usize, at: usize, server: &ModelServer) {
        let (name, machine) = (at / self.plan.setup.machines, at % self.plan.setup.machines);
        let elsewhere = self.tags[at].is_some();
        for layout in (0..self.worlds.len()).filter(|&layout| layout != from) {
            let Some(node) = self.node_in(layout, name) else { continue };
            let here = self.worlds[layout].server_mut(node, machine);
            (here.key, here.fence, here.run) = (server.key, server.fence, server.run);
            here.left.clone_from(&server.left);
            let is_owner = self.tags[at].is_some_and(|tag| tag.layout == layout);
            if !is_owner {
                here.view = None;
                (here.active, here.moved, here.elsewhere) = (false, false, elsewhere);
            }
        }
    }

    /// Records two holders, tokens out of order, and groups that share no server.
    pub(super) fn watch(&mut self) {
        self.violation = self.violation.or(self.worlds.iter().find_map(|world| world.violation));
        if self.worlds.iter().map(NamesWorld::holders).sum::<usize>() > 1 {
            self.violation = self.violation.or(Some(Violation::TwoHolders));
        }
        if self.plan.setup.locks {
            return;
        }
        let (now, ttl) = (self.worlds[0].now, self.plan.setup.ttl);
        self.groups.retain(|group| now < group.last + ttl);
        let mut found = Vec::new();
        for (layout, world) in self.worlds.iter().enumerate() {
            let machines = self.plan.setup.machines;
            let at = |bit: usize| self.server_at(layout, bit / machines, bit % machines);
            let shared = |group: u32| -> u32 {
                let bits = (0..u32::BITS as usize).filter(|bit| group & (1 << bit) != 0);
                bits.map(|bit| 1 << at(bit)).sum()
            };
            found.extend(world.present_groups().into_iter().map(shared));
        }
        let is_apart = |group: u32| {
            let earlier = self.groups.iter().map(|group| group.servers);
            earlier.chain(found.iter().copied()).any(|other| group & other == 0)
        };
        if found.iter().any(|&group| is_apart(group)) {
            self.violation = self.violation.or(Some(Violation::DisjointGroups));
        }
        for servers in found {
            match self.groups.iter_mut().find(|group| group.servers == servers) {
                Some(group) => group.last = now,
                None => self.groups.push(GrantGroup { servers, last: now }),
            }
        }
    }
}
