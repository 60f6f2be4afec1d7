//! Servers that may have forgotten (R6): the state of a world, and what must hold in it.
//!
//! Each client counts probations by the product's `Enrolment`; the servers are in memory. A lock
//! needs any two of three servers that vote under one view, and is granted by both at once: partial
//! votes are the subject of `lock`.

use std::{sync::Arc, time::Duration};

use stateright::{Model, Property};

use super::{
    enrolment_steps::EnrolStep,
    lock::{TICK, at},
};
use crate::{
    membership::{
        enrol::Enrolment,
        node_status::{ActivationStep, NodeStatus},
    },
    protocol::{
        formulas,
        views::{Incarnation, View},
    },
    timestamp::Timestamp,
};

pub(super) const NODES: usize = 3;

/// A world, and the part of the rules that is not in force.
#[derive(Clone, Debug)]
pub(super) struct EnrolWorld {
    /// The longest TTL of each client's locks, in ticks.
    pub(super) max_ttls: &'static [u8],
    /// Number of ticks until the world ends.
    pub(super) ticks: u8,
    /// Whether the servers are blank at the start, and no client has seen them.
    pub(super) is_new: bool,
    /// Whether clients take servers without a record of a vote as new.
    pub(super) assumes_new: bool,
    pub(super) budget: EnrolBudget,
    pub(super) left_out: Option<EnrolRule>,
}

/// Maximum number of events of each kind in a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct EnrolBudget {
    /// Servers that restart without their data.
    pub(super) blanks: u8,
    /// Servers that restart with data from before their keys and fences.
    pub(super) snapshots: u8,
    /// Connections that break.
    pub(super) cuts: u8,
    /// Clients that forget everything.
    pub(super) deaths: u8,
    pub(super) locks: u8,
    pub(super) renewals: u8,
}

/// A part of the rules, which a control leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EnrolRule {
    /// A server that restarted is enrolled anew, whatever data it has.
    Run,
    /// A probation lasts for the longest TTL.
    Wait,
    /// A longer TTL, which another server knows, prolongs a probation.
    Longer,
    /// An activated server has the fences of others.
    Learn,
    /// Servers that start anew have a floor for tokens.
    Floor,
    /// An activation compares the server's tag with the one that was read.
    CompareTag,
    /// A server with a record of a vote is not new.
    Past,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EnrolState {
    pub(super) tick: u8,
    pub(super) servers: Vec<Server>,
    pub(super) clients: Vec<Client>,
    /// The token of the latest lock, and the end of its holder's validity.
    pub(super) hold: (u8, u8),
    pub(super) budget: EnrolBudget,
    pub(super) fault: Option<EnrolFault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum EnrolFault {
    TwoHolders,
    /// A token is not above the token of an earlier lock.
    TokenOrder,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// Number of restarts.
    pub(super) run: u8,
    /// The run that it is enrolled for.
    pub(super) enrolled: Option<u8>,
    pub(super) view: Option<Arc<View>>,
    pub(super) votes: bool,
    /// Whether its record shows that it voted.
    pub(super) voted: bool,
    /// Whether it started anew with a quorum that forgot, instead of learning from voters.
    pub(super) is_anew: bool,
    pub(super) max_ttl: u8,
    /// The token of the lock that it stores, and the end of the key.
    pub(super) key: Option<(u8, u8)>,
    pub(super) fence: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) enrolment: Enrolment,
    /// The tag that it last read of each server.
    pub(super) tags: Vec<Option<Arc<str>>>,
    pub(super) tasks: Vec<Task>,
}

/// An activation under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Task {
    pub(super) step: ActivationStep,
    /// The greatest fence that was read; `None` before that.
    pub(super) learnt: Option<u8>,
}

impl Server {
    /// A server that votes, or one without data.
    fn new(max_ttl: u8, is_blank: bool) -> Self {
        let view = (0..NODES).map(|of| Some(incarnation(of, 1, 0))).collect();
        Self {
            run: 0,
            enrolled: (!is_blank).then_some(0),
            view: (!is_blank).then_some(view),
            votes: !is_blank,
            voted: !is_blank,
            is_anew: false,
            max_ttl: if is_blank { 0 } else { max_ttl },
            key: None,
            fence: 0,
        }
    }

    pub(super) fn tag(&self) -> Option<Arc<str>> {
        let state = if self.votes { 'a' } else { 'p' };
        self.view.as_ref().map(|view| format!("{state} {view:?}").into())
    }

    /// What a client reads of an enrolled server.
    pub(super) fn status(&self, world: &EnrolWorld) -> NodeStatus {
        let is_new = !self.voted || !world.has(EnrolRule::Past);
        let (Some(view), Some(tag)) = (self.view.clone(), self.tag()) else {
            return NodeStatus::Out;
        };
        if self.votes {
            NodeStatus::Active { view }
        } else {
            let max_ttl = length(self.max_ttl);
            NodeStatus::Probation { tag, view, max_ttl, moved: false, is_new }
        }
    }
}

pub(super) fn incarnation(node: usize, epoch: u32, run: u8) -> Incarnation {
    Incarnation { epoch, id: node as u128 * 0x100 + u128::from(run), nonce: 0 }
}

/// A TTL that makes a probation of so many ticks, drift included.
pub(super) fn length(ticks: u8) -> Duration {
    (TICK * u32::from(ticks)).saturating_sub(formulas::drift(Duration::ZERO, 0.0))
}

impl EnrolState {
    pub(super) fn now(&self) -> Timestamp {
        at(self.tick)
    }

    /// Returns the pairs of servers whose votes count together.
    pub(super) fn quorums(&self) -> impl Iterator<Item = [usize; 2]> {
        let votes =
            |node: usize| self.servers[node].view.as_ref().filter(|_| self.servers[node].votes);
        let agree = move |pair: &[usize; 2]| {
            let [a, b] = pair.map(votes);
            a.is_some() && a == b
        };
        [[0, 1], [0, 2], [1, 2]].into_iter().filter(agree)
    }
}

impl EnrolWorld {
    pub(super) fn has(&self, rule: EnrolRule) -> bool {
        self.left_out != Some(rule)
    }

    /// Returns the TTL of locks, in ticks.
    pub(super) fn ttl(&self) -> u8 {
        self.max_ttls.iter().copied().max().unwrap_or(0)
    }

    pub(super) fn client(&self, client: usize) -> Client {
        let enrolment =
            Enrolment::new(NODES, length(self.max_ttls[client]), 0.0).assume_new(self.assumes_new);
        Client { enrolment, tags: vec![None; NODES], tasks: Vec::new() }
    }

    fn restarts(&self) -> u8 {
        self.budget.blanks + self.budget.snapshots
    }
}

impl Model for EnrolWorld {
    type State = EnrolState;
    type Action = EnrolStep;

    fn init_states(&self) -> Vec<EnrolState> {
        let mut state = EnrolState {
            tick: 0,
            servers: vec![Server::new(self.ttl(), self.is_new); NODES],
            clients: (0..self.max_ttls.len()).map(|client| self.client(client)).collect(),
            hold: (0, 0),
            budget: self.budget.clone(),
            fault: None,
        };
        if !self.is_new {
            for client in 0..self.max_ttls.len() {
                (0..NODES)
                    .for_each(|node| self.take(&mut state, &EnrolStep::Observe { client, node }));
            }
        }
        vec![state]
    }

    fn actions(&self, state: &EnrolState, steps: &mut Vec<EnrolStep>) {
        self.possible_steps(state, steps);
    }

    fn next_state(&self, state: &EnrolState, step: EnrolStep) -> Option<EnrolState> {
        let mut next = state.clone();
        self.take(&mut next, &step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("one holder", |_, state: &EnrolState| {
                state.fault != Some(EnrolFault::TwoHolders)
            }),
            Property::always("tokens grow", |_, state: &EnrolState| {
                state.fault != Some(EnrolFault::TokenOrder)
            }),
            Property::sometimes("all locks are granted", |_, state: &EnrolState| {
                state.budget.locks == 0
            }),
        ];
        if self.restarts() > 0 {
            properties.push(Property::sometimes(
                "a server votes again",
                |_, state: &EnrolState| {
                    state.servers.iter().any(|server| server.run > 0 && server.votes)
                },
            ));
        }
        if self.is_new || self.restarts() >= 2 {
            properties
                .push(Property::sometimes("a quorum starts anew", |_, state: &EnrolState| {
                    state.servers.iter().any(|server| server.is_anew)
                }));
        }
        properties
    }
}
