//! Leases over three nodes: the state of a world, its steps, and what must hold in it.

use std::{collections::VecDeque, time::Duration};

use stateright::{Model, Property};

use super::lock_steps::LockStep;
use crate::{
    protocol::Answer,
    quorum::{
        Lease, LeaseCommand, LeaseParams,
        tests::{
            fixture::lease_params,
            node::{ModelNode, wall},
        },
    },
    timestamp::Timestamp,
    vote::Reason,
};

/// The unit of time. All clocks agree, so that a validity equals a TTL.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// A world, and the part of the rules that is not in force.
#[derive(Clone, Debug)]
pub(super) struct LockWorld {
    pub(super) clients: usize,
    /// How many of them, from the first, ask for shared leases.
    pub(super) sharers: usize,
    pub(super) nodes: usize,
    /// Number of ticks until the world ends.
    pub(super) ticks: u8,
    /// The TTL in ticks.
    pub(super) ttl: u32,
    /// The events that may still happen.
    pub(super) budget: Budget,
    /// Whether leases have fencing tokens.
    pub(super) fencing: bool,
    /// Whether a client may drop a request that waits for its votes.
    pub(super) drops: bool,
    /// Ticks between the earliest starts of one client and the next.
    pub(super) apart: usize,
    pub(super) left_out: Option<LockRule>,
}

/// Maximum number of events of each kind in a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Budget {
    /// Attempts of each client.
    pub(super) attempts: u8,
    /// Connections that break, and leave a request behind that may still run.
    pub(super) breaks: u8,
    /// Requests and answers that arrive twice.
    pub(super) duplicates: u8,
    /// Nodes that lose their data.
    pub(super) crashes: u8,
    /// Extensions that a holder asks for.
    pub(super) extends: u8,
    /// Hand-offs within a client.
    pub(super) hand_offs: u8,
    /// Releases after which a client keeps the lease.
    pub(super) lingers: u8,
    /// Exclusive leases that become shared ones.
    pub(super) downgrades: u8,
}

/// A part of the rules, which a control leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockRule {
    /// A release deletes the key only if it is the lease's own.
    CompareOnRelease,
    /// The validity counts from the start of the attempt, not from its end.
    CountFromStart,
    /// A node that forgot waits for a TTL before it votes.
    Wait,
    /// A node that forgot learns the fences of the others.
    Learn,
    /// A node accepts only tokens above its fence.
    Fences,
    /// All clients have the same nodes.
    SameLayout,
    /// A command is not run after the end of its lease's validity.
    Deadlines,
    /// A shared lease is refused where another one has the key alone.
    RefuseSharers,
    /// The release of a shared lease leaves the others.
    KeepOthers,
    /// A shared lease takes no token below the fence.
    SharedFences,
    /// A lease that lingered ends when it would have ended without that.
    KeptEnd,
    /// An exclusive lease that becomes a shared one keeps its keys until they have the other form.
    KeepUntilShared,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LockState {
    pub(super) tick: u8,
    pub(super) nodes: Vec<ModelNode>,
    /// When a node forgot, while it does not vote.
    pub(super) forgot: Vec<Option<u8>>,
    pub(super) clients: Vec<ClientState>,
    /// Requests that left their connection and may run at any time, or never.
    pub(super) strays: Vec<Stray>,
    pub(super) budget: Budget,
    /// The greatest token of all completed grants.
    pub(super) newest: u64,
    /// The same of the exclusive ones.
    pub(super) newest_alone: u64,
    pub(super) reached: Vec<Outcome>,
    /// The violation, if there is one.
    pub(super) fault: Option<LockFault>,
}

/// An outcome of the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Outcome {
    Acquired,
    Raised,
    Renewed,
    HandedOn,
    /// A lease that lingered was handed on.
    TakenOver,
    /// Several clients hold a shared lease.
    Shared,
    /// An exclusive lease became a shared one.
    Downgraded,
    Lost,
    Refused,
    Activated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LockFault {
    /// A token is not above the tokens of the leases completed before it was requested.
    TokenOrder,
    /// A lease counts a node's key that ends before the lease does.
    Unbacked,
    /// A node stored a key for a lease that had ended.
    LateKey,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct ClientState {
    pub(super) attempts: u8,
    pub(super) lease: Option<OpenLease>,
    /// Connections, one to each node.
    pub(super) links: Vec<Link>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OpenLease {
    pub(super) id: usize,
    pub(super) is_shared: bool,
    pub(super) lease: Lease,
    /// The end of the hold, by the client's state.
    pub(super) held_until: Option<Timestamp>,
    /// The greatest token that was completed before the lease was requested.
    pub(super) before: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Link {
    /// Requests of the present lease and of former ones, in the order in which they run.
    pub(super) requests: VecDeque<LinkRequest>,
    /// Answers of the present lease, in any order.
    pub(super) replies: Vec<(LeaseCommand, Result<Answer, Reason>)>,
}

/// A request of a lease, in one of its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LinkRequest {
    pub(super) id: usize,
    pub(super) is_shared: bool,
    pub(super) command: LeaseCommand,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stray {
    pub(super) node: usize,
    pub(super) request: LinkRequest,
}

impl OpenLease {
    /// Returns whether the answer to a request reaches the lease.
    pub(super) fn has_sent(&self, request: LinkRequest) -> bool {
        self.id == request.id && self.is_shared == request.is_shared
    }
}

impl LockState {
    pub(super) fn now(&self) -> Timestamp {
        at(self.tick)
    }

    /// Returns the number of holders whose leases are shared, and of the others.
    pub(super) fn holders(&self) -> (usize, usize) {
        let open = self.clients.iter().filter_map(|client| client.lease.as_ref());
        let held = open.filter(|open| open.held_until.is_some_and(|until| self.now() < until));
        let (shared, alone): (Vec<_>, Vec<_>) = held.partition(|open| open.is_shared);
        (shared.len(), alone.len())
    }
}

pub(super) fn at(tick: u8) -> Timestamp {
    Timestamp::ZERO + TICK * u32::from(tick)
}

impl LockWorld {
    pub(super) fn has(&self, rule: LockRule) -> bool {
        self.left_out != Some(rule)
    }

    pub(super) fn is_shared(&self, client: usize) -> bool {
        client < self.sharers
    }

    /// Returns the parameters of a client's lease. A client that shares knows no fence.
    pub(super) fn params(&self, client: usize, proposal: u64) -> LeaseParams {
        let is_shared = self.is_shared(client);
        let (proposal, block) = if is_shared { (1, 1) } else { (proposal, 256) };
        LeaseParams {
            validity: self.ttl(),
            // Timeouts change verdicts, not what is safe.
            node_timeout: TICK * 100,
            max_hold: TICK * 100,
            auto_extend: false,
            proposal: self.fencing.then_some(proposal),
            block,
            shared_at: is_shared.then_some(wall(Timestamp::ZERO)),
            ..lease_params(3)
        }
    }

    pub(super) fn ttl(&self) -> Duration {
        TICK * self.ttl
    }
}

impl Model for LockWorld {
    type State = LockState;
    type Action = LockStep;

    fn init_states(&self) -> Vec<LockState> {
        let max_delay = if self.has(LockRule::Deadlines) { Duration::ZERO } else { TICK * 100 };
        let client = ClientState { links: vec![Link::default(); 3], ..ClientState::default() };
        vec![LockState {
            tick: 0,
            nodes: (0..self.nodes).map(|_| ModelNode::new(self.ttl(), max_delay)).collect(),
            forgot: vec![None; self.nodes],
            clients: vec![client; self.clients],
            strays: Vec::new(),
            budget: self.budget.clone(),
            newest: 0,
            newest_alone: 0,
            reached: Vec::new(),
            fault: None,
        }]
    }

    fn actions(&self, state: &LockState, steps: &mut Vec<LockStep>) {
        self.possible_steps(state, steps);
    }

    fn next_state(&self, state: &LockState, step: LockStep) -> Option<LockState> {
        let mut next = state.clone();
        next.reached.clear();
        self.take(&mut next, &step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("one holder", |_, state: &LockState| {
                matches!(state.holders(), (_, 0) | (0, 1))
            }),
            Property::always("tokens grow", |_, state: &LockState| {
                state.fault != Some(LockFault::TokenOrder)
            }),
            Property::always("a quorum keeps the key", |_, state: &LockState| {
                state.fault != Some(LockFault::Unbacked)
            }),
            Property::always("no key for an ended lease", |_, state: &LockState| {
                state.fault != Some(LockFault::LateKey)
            }),
            Property::sometimes("acquired", |_, state: &LockState| {
                state.reached.contains(&Outcome::Acquired)
            }),
        ];
        if self.sharers < self.clients {
            properties.push(Property::sometimes("refused", |_, state: &LockState| {
                state.reached.contains(&Outcome::Refused)
            }));
        }
        if self.budget.extends > 0 {
            properties.push(Property::sometimes("renewed", |_, state: &LockState| {
                state.reached.contains(&Outcome::Renewed)
            }));
        }
        if u32::from(self.ticks) >= self.ttl {
            properties.push(Property::sometimes("lost", |_, state: &LockState| {
                state.reached.contains(&Outcome::Lost)
            }));
        }
        if self.budget.hand_offs > 0 {
            properties.push(Property::sometimes("handed on", |_, state: &LockState| {
                state.reached.contains(&Outcome::HandedOn)
            }));
        }
        if self.budget.lingers > 0 {
            properties.push(Property::sometimes("taken over", |_, state: &LockState| {
                state.reached.contains(&Outcome::TakenOver)
            }));
        }
        if self.budget.crashes > 0 && u32::from(self.ticks) >= self.ttl {
            properties.push(Property::sometimes("a node votes again", |_, state: &LockState| {
                state.reached.contains(&Outcome::Activated)
            }));
        }
        if self.budget.downgrades > 0 {
            properties.push(Property::sometimes("downgraded", |_, state: &LockState| {
                state.reached.contains(&Outcome::Downgraded)
            }));
        }
        if self.sharers > 1 {
            properties.push(Property::sometimes("shared", |_, state: &LockState| {
                state.reached.contains(&Outcome::Shared)
            }));
        }
        if self.fencing && self.sharers < self.clients {
            properties.push(Property::sometimes("raised", |_, state: &LockState| {
                state.reached.contains(&Outcome::Raised)
            }));
        }
        properties
    }
}
