//! The steps of a world of servers that forget.

use std::sync::Arc;

use super::{
    enrolment::{
        EnrolFault, EnrolRule, EnrolState, EnrolWorld, NODES, Server, Task, incarnation, length,
    },
    lock::TICK,
};
use crate::{
    membership::node_status::{ActivationOutcome, ActivationPlan, NodeStatus},
    protocol::formulas,
    timestamp::Timestamp,
};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum EnrolStep {
    /// A tick passes.
    Tick,
    /// A client reads a server, and enrols it if it is blank or was restarted.
    Observe { client: usize, node: usize },
    /// A client loses its connection to a server, until it looks again.
    Cut { client: usize, node: usize },
    /// A client tells a server the owners that it lacks.
    Inform { client: usize, node: usize },
    /// A client begins the activations that are due.
    Begin { client: usize },
    /// A client reads what the server of its first activation has to learn.
    Learn { client: usize },
    /// A client activates the server of its first activation.
    Activate { client: usize },
    /// A client forgets everything.
    Die { client: usize },
    /// A server restarts without its data, or with data from before its keys and fences.
    Restart { node: usize, is_blank: bool },
    /// A lock is granted by two servers.
    Lock { by: [usize; 2] },
    /// The latest lock is extended on two servers.
    Renew { on: [usize; 2] },
}

impl EnrolWorld {
    pub(super) fn possible_steps(&self, state: &EnrolState, steps: &mut Vec<EnrolStep>) {
        if state.tick < self.ticks {
            steps.push(EnrolStep::Tick);
        }
        for (client, of_client) in state.clients.iter().enumerate() {
            for node in 0..NODES {
                steps.push(EnrolStep::Observe { client, node });
                if state.budget.cuts > 0 && of_client.tags[node].is_some() {
                    steps.push(EnrolStep::Cut { client, node });
                }
                if of_client.enrolment.lacks_owners(node) {
                    steps.push(EnrolStep::Inform { client, node });
                }
            }
            if of_client.enrolment.next_activation().is_some_and(|wake| wake <= self.clock(state)) {
                steps.push(EnrolStep::Begin { client });
            }
            match of_client.tasks.first() {
                Some(Task { learnt: None, .. }) => steps.push(EnrolStep::Learn { client }),
                Some(_) => steps.push(EnrolStep::Activate { client }),
                None => {}
            }
            if state.budget.deaths > 0 {
                steps.push(EnrolStep::Die { client });
            }
        }
        // Servers are alike: the first one that restarts is the first.
        let left = state.budget.blanks + state.budget.snapshots;
        let before = usize::from(self.budget.blanks + self.budget.snapshots - left);
        for node in 0..NODES.min(before + 1) {
            for (left, is_blank) in [(state.budget.blanks, true), (state.budget.snapshots, false)] {
                if left > 0 {
                    steps.push(EnrolStep::Restart { node, is_blank });
                }
            }
        }
        let stores = |node: usize| live_key(&state.servers[node], state.tick);
        for pair in state.quorums() {
            if state.budget.locks > 0 && pair.iter().all(|&node| stores(node).is_none()) {
                steps.push(EnrolStep::Lock { by: pair });
            }
            let (token, until) = state.hold;
            let is_ours = |&node: &usize| stores(node).is_none_or(|key| key == token);
            if state.budget.renewals > 0 && state.tick < until && pair.iter().all(is_ours) {
                steps.push(EnrolStep::Renew { on: pair });
            }
        }
    }

    /// Returns the clock by which clients count probations.
    fn clock(&self, state: &EnrolState) -> Timestamp {
        let skipped = if self.has(EnrolRule::Wait) { 0 } else { self.ttl() };
        state.now() + TICK * u32::from(skipped)
    }

    pub(super) fn take(&self, state: &mut EnrolState, step: &EnrolStep) {
        match *step {
            EnrolStep::Tick => {
                state.tick += 1;
                // Expired keys are removed, so that states which differ only in them are equal.
                for server in &mut state.servers {
                    server.key = server.key.filter(|(_, end)| state.tick < *end);
                }
            }
            EnrolStep::Observe { client, node } => self.look(state, client, node),
            EnrolStep::Cut { client, node } => {
                state.budget.cuts -= 1;
                let now = state.now();
                state.clients[client].enrolment.see(node, NodeStatus::Out, now);
                state.clients[client].tags[node] = None;
            }
            EnrolStep::Inform { client, node } => inform(state, client, node),
            EnrolStep::Begin { client } => {
                let now = self.clock(state);
                let of_client = &mut state.clients[client];
                let due = of_client.enrolment.due(now).into_iter();
                of_client.tasks.extend(due.map(|step| Task { step, learnt: None }));
            }
            EnrolStep::Learn { client } => self.learn(state, client),
            EnrolStep::Activate { client } => self.activate(state, client),
            EnrolStep::Die { client } => {
                state.budget.deaths -= 1;
                state.clients[client] = self.client(client);
            }
            EnrolStep::Restart { node, is_blank } => self.restart(state, node, is_blank),
            EnrolStep::Lock { by } => {
                state.budget.locks -= 1;
                let fences = by.map(|node| state.servers[node].fence);
                let token = 1 + fences.into_iter().max().unwrap_or(0);
                let (newest, until) = state.hold;
                if state.tick < until {
                    state.fault = Some(EnrolFault::TwoHolders);
                } else if token <= newest {
                    state.fault = Some(EnrolFault::TokenOrder);
                }
                for node in by {
                    state.servers[node].fence = token;
                }
                self.store(state, by, token);
            }
            EnrolStep::Renew { on } => {
                state.budget.renewals -= 1;
                let (token, _) = state.hold;
                self.store(state, on, token);
            }
        }
    }

    fn store(&self, state: &mut EnrolState, nodes: [usize; 2], token: u8) {
        let until = state.tick + self.ttl();
        for node in nodes {
            state.servers[node].key = Some((token, until));
        }
        state.hold = (token, until);
    }

    fn look(&self, state: &mut EnrolState, client: usize, node: usize) {
        let now = state.now();
        let max_ttl = self.max_ttls[client];
        let (of_client, server) = (&mut state.clients[client], &mut state.servers[node]);
        if server.enrolled != Some(server.run) {
            let view = server.view.get_or_insert_with(|| [None; NODES].into());
            let next = view[node].map_or(1, |own| own.epoch + 1);
            let epoch = next.max(of_client.enrolment.least_epoch(node));
            Arc::make_mut(view)[node] = Some(incarnation(node, epoch, server.run));
            server.enrolled = Some(server.run);
            server.votes = false;
        }
        if !server.votes {
            server.max_ttl = server.max_ttl.max(max_ttl);
        }
        of_client.tags[node] = server.tag();
        of_client.enrolment.see(node, server.status(self), now);
    }

    fn learn(&self, state: &mut EnrolState, client: usize) {
        let now = state.now();
        let of_client = &mut state.clients[client];
        let task = &mut of_client.tasks[0];
        let (from, needed) = match &task.step.plan {
            ActivationPlan::Learn { from, needed } => (from, *needed),
            ActivationPlan::Bootstrap { from } => (from, 0),
            ActivationPlan::New => (&Vec::new(), 0),
        };
        let servers = || from.iter().map(|&other| &state.servers[other]);
        let same = |&&other: &&usize| {
            let server = &state.servers[other];
            server.votes && server.tag() == of_client.tags[other]
        };
        let fence = servers().map(|server| server.fence).max().unwrap_or(0);
        let longest = servers().map(|server| length(server.max_ttl)).max().unwrap_or_default();
        let is_short = task.step.plan != ActivationPlan::New
            && task.step.waited < longest + formulas::drift(longest, 0.0);
        let outcome = if from.iter().filter(same).count() < needed {
            ActivationOutcome::Failed
        } else if is_short && self.has(EnrolRule::Longer) {
            ActivationOutcome::Longer(longest)
        } else {
            task.learnt = Some(fence);
            return;
        };
        let Task { step, .. } = of_client.tasks.remove(0);
        of_client.enrolment.ended(step.node, outcome, now);
    }

    fn activate(&self, state: &mut EnrolState, client: usize) {
        let now = state.now();
        let (newest, _) = state.hold;
        let of_client = &mut state.clients[client];
        let Task { step, learnt } = of_client.tasks.remove(0);
        let server = &mut state.servers[step.node];
        let waits = server.enrolled == Some(server.run) && !server.votes;
        if waits && (server.tag().as_ref() == Some(&step.tag) || !self.has(EnrolRule::CompareTag)) {
            let learnt = learnt.filter(|_| self.has(EnrolRule::Learn)).unwrap_or(0);
            let starts =
                matches!(step.plan, ActivationPlan::Bootstrap { .. } | ActivationPlan::New);
            // The clock and a minute is above every token.
            let floor = if starts && self.has(EnrolRule::Floor) { newest } else { 0 };
            (server.votes, server.voted, server.is_anew) = (true, true, starts);
            server.fence = server.fence.max(learnt).max(floor);
        }
        of_client.enrolment.ended(step.node, ActivationOutcome::Done, now);
    }

    fn restart(&self, state: &mut EnrolState, node: usize, is_blank: bool) {
        let server = &mut state.servers[node];
        server.run += 1;
        server.is_anew = false;
        (server.key, server.fence) = (None, 0);
        if is_blank {
            state.budget.blanks -= 1;
            (server.enrolled, server.view, server.max_ttl) = (None, None, 0);
            (server.votes, server.voted) = (false, false);
        } else {
            state.budget.snapshots -= 1;
            if self.has(EnrolRule::Run) {
                server.votes = false;
            } else {
                server.enrolled = server.enrolled.map(|_| server.run);
            }
        }
    }
}

/// Storing is by maximum.
fn inform(state: &mut EnrolState, client: usize, node: usize) {
    let enrolment = &state.clients[client].enrolment;
    if !enrolment.lacks_owners(node) {
        return;
    }
    let server = &mut state.servers[node];
    let Some(view) = server.view.as_mut().filter(|_| server.enrolled == Some(server.run)) else {
        return;
    };
    for (name, stored) in Arc::make_mut(view).iter_mut().enumerate() {
        *stored = enrolment.owner(name).max(*stored);
    }
}

/// Returns the token of the lock whose key a server stores.
fn live_key(server: &Server, tick: u8) -> Option<u8> {
    server.key.filter(|(_, end)| tick < *end).map(|(token, _)| token)
}
