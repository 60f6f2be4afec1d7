//! The servers, the names that lead to them, and what goes wrong.

use std::sync::Arc;

use super::{
    clocks::{Clock, Whose},
    driver::Driver,
    faults::Faults,
    groups::Group,
    lock::Lease,
    rule::Part,
};
use crate::quorum::names::{Incarnation, View, name_each_other};

/// The most names of a set.
pub(super) const NAMES: usize = 5;
/// How many clients there are: each takes locks, and each drives the changes.
pub(super) const CLIENTS: usize = 2;

pub(super) type Tick = u16;
pub(super) type PerName<T> = [T; NAMES];

/// One machine under a name.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    /// Its enrolment and the owners that it stores; `None` while it is blank.
    pub(super) view: Option<Arc<View>>,
    pub(super) active: bool,
    /// Counts the restarts.
    pub(super) run: u8,
    pub(super) key: Option<Key>,
    pub(super) fence: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) lease: u16,
    pub(super) expires: Tick,
}

impl Server {
    /// Stores `owner` for the name of `node`, unless a greater one is there.
    pub(super) fn store(&mut self, node: usize, owner: Incarnation) {
        if let Some(view) = &mut self.view
            && view.owners[node] < Some(owner)
        {
            Arc::make_mut(view).owners[node] = Some(owner);
        }
    }

    /// The lease whose key is stored here.
    pub(super) fn lease(&self, now: Tick) -> Option<u16> {
        self.key.filter(|key| now < key.expires).map(|key| key.lease)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) names: usize,
    /// Machines under each name.
    pub(super) machines: usize,
    /// The TTL of all locks, in ticks.
    pub(super) ttl: Tick,
    /// By how many ticks two clocks may differ after a TTL: 0 or 1.
    pub(super) drift: Tick,
    /// The part of the rule that is left out.
    pub(super) without: Option<Part>,
    pub(super) faults: Faults,
    /// How many names may change during the change of one, that one included, while the former
    /// server of a name may be alive.
    pub(super) at_once: usize,
    /// Whether the set has never been started.
    pub(super) blank: bool,
    /// Whether the clients may be told different machines by their look-ups.
    pub(super) split_lookups: bool,
    /// Whether the clients take locks; otherwise the groups that could grant one are watched.
    pub(super) locks: bool,
}

/// One step of the world. `client`, `node`: indices; `machine`: index under the name of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Tick,
    /// A clock gains a tick on the slowest one.
    Gain {
        clock: Whose,
    },
    /// The look-ups of a client lead to another machine from now on; `None`: of all clients.
    Move {
        client: Option<usize>,
        node: usize,
        machine: usize,
    },
    Restart {
        node: usize,
        machine: usize,
        keeps_data: bool,
    },
    Crash {
        client: usize,
    },
    /// The client can't reach the node any more.
    Cut {
        client: usize,
        node: usize,
    },
    /// The client opens a new connection by a fresh look-up.
    Open {
        client: usize,
        node: usize,
    },
    /// The client reads the server, and enrols it if it is blank or was restarted.
    Look {
        client: usize,
        node: usize,
    },
    /// The client enrols a displaced server anew.
    Reenrol {
        client: usize,
        node: usize,
    },
    /// The client stores into `into` the incarnation that it read under `of`.
    Store {
        client: usize,
        into: usize,
        of: usize,
    },
    /// The client stores into a server in probation all owners that it knows.
    Merge {
        client: usize,
        node: usize,
    },
    /// The client begins to activate a server.
    Begin {
        client: usize,
        node: usize,
    },
    /// The client reads a fence for the activation under way.
    Fence {
        client: usize,
        node: usize,
    },
    Activate {
        client: usize,
    },
    /// The client asks for the lock.
    Attempt {
        client: usize,
    },
    Vote {
        client: usize,
        node: usize,
    },
    Raise {
        client: usize,
    },
    RaiseVote {
        client: usize,
        node: usize,
    },
    Extend {
        client: usize,
    },
    ExtendVote {
        client: usize,
        node: usize,
    },
    /// The client gives the lock or the attempt up, with or without deleting the keys.
    Release {
        client: usize,
        deletes: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    TwoHolders,
    TokenIssuedTwice,
    TokenNotGreater,
    DisjointGroups,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) setup: Setup,
    /// The time by the slowest clock.
    pub(super) now: Tick,
    /// Of the clients, then of the servers.
    pub(super) clocks: Vec<Clock>,
    pub(super) servers: Vec<Server>,
    /// Where each client's look-ups lead.
    pub(super) leads: [PerName<usize>; CLIENTS],
    pub(super) drivers: [Driver; CLIENTS],
    pub(super) leases: [Option<Lease>; CLIENTS],
    /// The largest fence that each client knows.
    pub(super) known: [u16; CLIENTS],
    pub(super) issued: Vec<u16>,
    pub(super) groups: Vec<Group>,
    /// The largest number that was ever proposed.
    pub(super) top: u16,
    pub(super) enrolments: u64,
    pub(super) attempts: u16,
    pub(super) left: Faults,
    /// The names that changed during the change of each, that one included; one bit for each.
    pub(super) changed_during: PerName<u8>,
    pub(super) violation: Option<Violation>,
}

impl World {
    pub(super) fn new(setup: Setup) -> Self {
        let mut world = Self {
            setup,
            now: 0,
            clocks: vec![Clock::default(); CLIENTS + setup.names * setup.machines],
            servers: vec![Server::default(); setup.names * setup.machines],
            leads: [[0; NAMES]; CLIENTS],
            drivers: std::array::from_fn(|_| Driver::new(0)),
            leases: std::array::from_fn(|_| None),
            known: [0; CLIENTS],
            issued: Vec::new(),
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
            let first: Vec<_> =
                (0..setup.names).map(|node| world.incarnation(node, 0, 1)).collect();
            for node in 0..setup.names {
                let owner = |(of, own): (usize, &Incarnation)| (of != node).then_some(*own);
                let owners = first.iter().enumerate().map(owner).collect();
                let server = world.server_mut(node, 0);
                server.view = Some(Arc::new(View { incarnation: first[node], owners }));
                server.active = true;
            }
            for client in 0..CLIENTS {
                (0..setup.names).for_each(|node| {
                    world.look(client, node);
                });
            }
            if !setup.locks {
                world.note_groups();
            }
        }
        world
    }

    pub(super) fn names(&self) -> std::ops::Range<usize> {
        0..self.setup.names
    }

    pub(super) fn quorum(&self) -> usize {
        crate::quorum::rules::quorum(self.setup.names)
    }

    /// N−q+1: so many nodes have one of each quorum among them.
    pub(super) fn blocking(&self) -> usize {
        self.setup.names - self.quorum() + 1
    }

    pub(super) fn has(&self, part: Part) -> bool {
        self.setup.without != Some(part)
    }

    pub(super) fn server(&self, node: usize, machine: usize) -> &Server {
        &self.servers[node * self.setup.machines + machine]
    }

    pub(super) fn server_mut(&mut self, node: usize, machine: usize) -> &mut Server {
        &mut self.servers[node * self.setup.machines + machine]
    }

    fn run_id(&self, node: usize, machine: usize) -> u128 {
        let run = self.server(node, machine).run;
        ((node * self.setup.machines + machine) * 256 + usize::from(run)) as u128
    }

    fn incarnation(&mut self, node: usize, machine: usize, epoch: u32) -> Incarnation {
        self.enrolments += 1;
        Incarnation { epoch, id: self.run_id(node, machine), nonce: self.enrolments }
    }

    /// Whether the server was enrolled in its present run.
    pub(super) fn is_enrolled(&self, node: usize, machine: usize) -> bool {
        let view = self.server(node, machine).view.as_ref();
        view.is_some_and(|view| view.incarnation.id == self.run_id(node, machine))
    }

    /// Enrols a server into a probation; it keeps what it stores.
    pub(super) fn enrol(&mut self, node: usize, machine: usize, known: Option<Incarnation>) {
        let stored = self.server(node, machine).view.clone();
        let epoch = |of: Option<Incarnation>| of.map_or(0, |incarnation| incarnation.epoch);
        let greatest = epoch(known).max(epoch(stored.as_ref().map(|view| view.incarnation)));
        let incarnation = self.incarnation(node, machine, greatest + 1);
        let owners = stored.map_or_else(
            || vec![None; self.setup.names].into_boxed_slice(),
            |view| view.owners.clone(),
        );
        let server = self.server_mut(node, machine);
        server.view = Some(Arc::new(View { incarnation, owners }));
        server.active = false;
    }

    /// Whether all look-ups of a name lead to one active server, and it and the other names'
    /// active servers name each other.
    pub(super) fn is_sound(&self, node: usize) -> bool {
        let active = |node: usize| {
            let machine = self.leads[0][node];
            let agreed = self.leads.iter().all(|leads| leads[node] == machine);
            let server = self.server(node, machine);
            (agreed && self.is_enrolled(node, machine) && server.active)
                .then(|| server.view.as_ref().expect("it is enrolled"))
        };
        let Some(own) = active(node) else { return false };
        self.names().filter(|&other| other != node).all(|other| {
            active(other).is_none_or(|view| name_each_other((node, own), (other, view)))
        })
    }

    /// Does one step; false if it can't be done now, or changes nothing.
    pub(super) fn apply(&mut self, step: Step) -> bool {
        let done = match step {
            Step::Tick => {
                self.now += 1;
                true
            }
            Step::Gain { clock } => self.gain(clock),
            Step::Move { client, node, machine } => self.move_name(client, node, machine),
            Step::Restart { node, machine, keeps_data } => self.restart(node, machine, keeps_data),
            Step::Crash { client } => self.crash(client),
            Step::Cut { client, node } => self.cut(client, node),
            Step::Open { client, node } => self.open(client, node),
            Step::Look { client, node } => self.look(client, node),
            Step::Reenrol { client, node } => self.reenrol(client, node),
            Step::Store { client, into, of } => self.store(client, into, of),
            Step::Merge { client, node } => self.merge(client, node),
            Step::Begin { client, node } => self.begin(client, node),
            Step::Fence { client, node } => self.fence(client, node),
            Step::Activate { client } => self.activate(client),
            Step::Attempt { client } => self.attempt(client),
            Step::Vote { client, node } => self.vote(client, node),
            Step::Raise { client } => self.raise(client),
            Step::RaiseVote { client, node } => self.raise_vote(client, node),
            Step::Extend { client } => self.extend(client),
            Step::ExtendVote { client, node } => self.extend_vote(client, node),
            Step::Release { client, deletes } => self.release(client, deletes),
        };
        if done && self.violation.is_none() && self.holders() > 1 {
            self.violation = Some(Violation::TwoHolders);
        }
        let changes = matches!(
            step,
            Step::Tick
                | Step::Look { .. }
                | Step::Reenrol { .. }
                | Step::Store { .. }
                | Step::Merge { .. }
                | Step::Activate { .. }
        );
        if done && changes && !self.setup.locks {
            self.note_groups();
        }
        done
    }
}
