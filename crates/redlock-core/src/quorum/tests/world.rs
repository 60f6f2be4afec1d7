//! Nodes, processes that want the same resource, and a network between them, in virtual time.

use std::time::Duration;

use super::{
    attempt::{Attempt, ReplyInTransit},
    fixture::lease_params,
    node::{ModelKey, ModelNode, TOKEN_LEAD, wall},
};
use crate::{
    membership::{
        enrol::Enrolment,
        node_status::{ActivationOutcome, ActivationPlan, NodeStatus},
    },
    protocol::{formulas, views::Incarnation},
    quorum::{Action, Event, LeadNode, LeaseParams, NextHolder},
    timestamp::Timestamp,
    token::block_end,
    vote::Reason,
};

/// The processes; each has a wall clock of its own.
#[derive(Clone, Debug)]
pub(super) struct WorldProcess {
    /// How far its wall clock is from the nodes', in µs.
    pub(super) skew: i64,
    /// Whether it remembers fences from attempt to attempt; else it is as good as restarted.
    pub(super) learns: bool,
}

#[derive(Clone, Debug)]
pub(super) struct WorldSetup {
    pub(super) nodes: usize,
    pub(super) ttl: Duration,
    pub(super) max_hold: Duration,
    pub(super) auto_extend: bool,
    pub(super) fencing: bool,
    pub(super) processes: Vec<WorldProcess>,
}

#[derive(Debug)]
pub(super) struct LeaseWorld {
    pub(super) now: Timestamp,
    pub(super) nodes: Vec<ModelNode>,
    /// All attempts ever; the index is the nonce.
    pub(super) attempts: Vec<Attempt>,
    pub(super) tally: Tally,
    params: LeaseParams,
    processes: Vec<(WorldProcess, u64, Option<usize>)>,
    /// Nodes lost keys before their time: exclusion is not promised any more, fencing is.
    broken: bool,
    /// Nodes were restarted: a quorum need not keep what it promised, and exclusion holds all the
    /// same.
    restarted: bool,
    /// Each process counts the probations of the nodes by itself.
    enrolments: Vec<Enrolment>,
    /// For each attempt, the largest token that was complete when it began.
    before: Vec<u64>,
}

/// How often a run came to what it is meant to test.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) acquired: u32,
    pub(super) raised: u32,
    pub(super) refused: u32,
    pub(super) renewed: u32,
    pub(super) handed_on: u32,
    pub(super) lingered: u32,
    pub(super) lost: u32,
    pub(super) orphaned: u32,
    pub(super) released: u32,
    pub(super) learnt: u32,
    pub(super) bootstrapped: u32,
}

impl LeaseWorld {
    pub(super) fn new(setup: &WorldSetup) -> Self {
        let drift = formulas::drift(setup.ttl, 0.01);
        let validity = formulas::validity(setup.ttl, drift);
        let params = LeaseParams {
            validity,
            node_timeout: formulas::node_timeout(Duration::from_millis(50), setup.ttl),
            max_hold: setup.max_hold,
            auto_extend: setup.auto_extend,
            proposal: setup.fencing.then_some(0),
            ..lease_params(setup.nodes)
        };
        // Every other node has a clock as fast as the drift allows.
        let life = |node| if node % 2 == 0 { validity } else { setup.ttl };
        let node = |node| ModelNode::new(life(node), params.node_timeout * 2);
        Self {
            now: Timestamp::from_nanos(1_000_000_000),
            nodes: (0..setup.nodes).map(node).collect(),
            attempts: Vec::new(),
            tally: Tally::default(),
            params,
            processes: setup.processes.iter().map(|p| (p.clone(), 0, None)).collect(),
            broken: false,
            restarted: false,
            enrolments: setup
                .processes
                .iter()
                .map(|_| Enrolment::new(setup.nodes, setup.ttl, 0.01))
                .collect(),
            before: Vec::new(),
        }
    }

    pub(super) fn ttl_part(&self, sixty_fourths: u8) -> Duration {
        self.params.validity * u32::from(sixty_fourths) / 64
    }

    /// A process tries again, unless its last attempt is still open.
    pub(super) fn start(&mut self, process: usize) {
        let (now, id) = (self.now, self.attempts.len());
        let count = self.processes.len();
        let (process, known, current) = &mut self.processes[process % count];
        if current.is_some_and(|id| self.attempts[id].is_open()) {
            return;
        }
        *current = Some(id);
        let clock = wall(now).saturating_add_signed(process.skew);
        let known_then = if process.learns { *known } else { 0 };
        let token = clock.max(known_then + 1);
        *known = block_end(token, 256).max(*known);
        // Some ask one node first.
        let max_delay = self.params.node_timeout / 5;
        let lead_node = (id % 3 == 1).then(|| LeadNode { node: id % self.nodes.len(), max_delay });
        let proposal = self.params.proposal.map(|_| token);
        let params = LeaseParams { proposal, lead_node, ..self.params };
        self.before.push(self.attempts.iter().filter_map(|a| a.newest).max().unwrap_or(0));
        self.attempts.push(Attempt::start(id, params, now));
    }

    /// One of the last attempts.
    pub(super) fn pick(&self, who: u8) -> Option<usize> {
        let count = self.attempts.len();
        let back = usize::from(who) % count.clamp(1, 4);
        count.checked_sub(back + 1)
    }

    /// The node runs the attempt's oldest command; with an error for an answer, only `ran` if it
    /// may have run.
    pub(super) fn execute(&mut self, id: usize, node: usize, error: Option<(Reason, bool)>) {
        let Some(command) = self.attempts[id].requests[node].pop_front() else { return };
        let mut run = || self.nodes[node].run(id, command, self.now);
        let result = match error {
            None => run(),
            Some((reason, ran)) => {
                if ran && reason.may_have_run() {
                    let _ = run();
                }
                Err(reason)
            }
        };
        self.attempts[id].replies.push(ReplyInTransit { node, command, result });
    }

    /// An answer arrives; if it comes `twice`, a second time later on.
    pub(super) fn deliver(&mut self, id: usize, which: usize, twice: bool) {
        let attempt = &mut self.attempts[id];
        if attempt.replies.is_empty() {
            return;
        }
        let which = which % attempt.replies.len();
        let reply =
            if twice { attempt.replies[which].clone() } else { attempt.replies.swap_remove(which) };
        if let Ok(answer) = &reply.result {
            let owner = self.processes.iter_mut().find(|(.., current)| *current == Some(id));
            if let Some((_, known, _)) = owner {
                *known = answer.fence().max(*known);
            }
        }
        let strict = !self.broken && !self.restarted;
        let out = attempt.deliver(reply, self.now, &self.nodes, strict);
        self.check(id, &out);
    }

    pub(super) fn event(&mut self, id: usize, event: Event) {
        let strict = !self.broken && !self.restarted;
        let nodes = strict.then_some(self.nodes.as_slice());
        let out = self.attempts[id].handle(event, self.now, nodes);
        self.check(id, &out);
    }

    /// Hands the lease to another holder of its process.
    pub(super) fn hand_on(&mut self, id: usize, next: NextHolder) {
        let newest = self.newest();
        let strict = !self.broken && !self.restarted;
        let nodes = strict.then_some(self.nodes.as_slice());
        let Some(token) = self.attempts[id].hand_on(next, self.now, nodes) else { return };
        self.tally.handed_on += 1;
        self.check_exclusion(id);
        if strict && self.params.proposal.is_some() {
            assert!(token > newest, "{token} after {newest}");
        }
    }

    /// Keeps the lease for another holder of its process.
    pub(super) fn linger(&mut self, id: usize, until: Timestamp) {
        if self.attempts[id].linger(until, self.now) {
            self.tally.lingered += 1;
        }
    }

    /// Returns the largest token that was ever granted.
    fn newest(&self) -> u64 {
        self.attempts.iter().filter_map(|attempt| attempt.newest).max().unwrap_or(0)
    }

    /// A key that somebody else wrote, where none is.
    pub(super) fn foreign(&mut self, node: usize, life: Option<Duration>) {
        if self.nodes[node].key(self.now).is_none() {
            let expires = life.map(|life| self.now + life);
            self.nodes[node].key = Some(ModelKey { lease: None, expires });
        }
    }

    /// A key is deleted before its time: the node broke its promise.
    pub(super) fn wipe(&mut self, node: usize) {
        self.broken |= self.nodes[node].key.is_some_and(|key| key.lease.is_some());
        self.nodes[node].key = None;
    }

    /// A node comes back without its key.
    pub(super) fn restart(&mut self, node: usize, keeps_fence: bool) {
        self.restarted = true;
        self.nodes[node].restart(keeps_fence);
    }

    /// A process looks how a node stands.
    pub(super) fn look(&mut self, process: usize, node: usize) {
        let count = self.enrolments.len();
        let seen = &self.nodes[node];
        // Here every name leads to one server, and all learn of each enrolment at once.
        let own = |node: usize| Incarnation {
            epoch: self.nodes[node].restarts + 1,
            id: node as u128,
            nonce: 0,
        };
        let view = (0..self.nodes.len()).map(|other| Some(own(other))).collect();
        let sight = if seen.active {
            NodeStatus::Active { view }
        } else {
            let tag = seen.restarts.to_string().into();
            NodeStatus::Probation {
                tag,
                view,
                max_ttl: Duration::ZERO,
                moved: false,
                is_new: false,
            }
        };
        self.enrolments[process % count].see(node, sight, self.now);
    }

    /// A process activates the nodes whose probation is over by its count; it can reach `reached`.
    pub(super) fn enrol(&mut self, process: usize, reached: u16) {
        let count = self.enrolments.len();
        let enrolment = &mut self.enrolments[process % count];
        for step in enrolment.due(self.now) {
            let reached = |node: &usize| reached & (1 << node) != 0;
            let fences = |from: &[usize], wanted: &dyn Fn(&ModelNode) -> bool| -> Vec<u64> {
                let asked = from.iter().filter(|node| reached(node));
                asked
                    .map(|&node| &self.nodes[node])
                    .filter(|n| wanted(n))
                    .map(|n| n.fence)
                    .collect()
            };
            let learnt = match &step.plan {
                ActivationPlan::Learn { from, needed } => {
                    let fences = fences(from, &|node| node.active);
                    (fences.len() >= *needed).then(|| fences.into_iter().max().unwrap_or(0))
                }
                ActivationPlan::Bootstrap { from } => {
                    let floor = wall(self.now) + TOKEN_LEAD;
                    fences(from, &|_| true).into_iter().chain([floor]).max()
                }
                ActivationPlan::New => Some(wall(self.now) + TOKEN_LEAD),
            };
            let node = &mut self.nodes[step.node];
            let same = node.restarts.to_string() == *step.tag && !node.active;
            let Some(fence) = learnt.filter(|_| reached(&step.node)) else {
                enrolment.ended(step.node, ActivationOutcome::Failed, self.now);
                continue;
            };
            if same {
                node.active = true;
                node.fence = node.fence.max(fence);
                match step.plan {
                    ActivationPlan::Learn { .. } => self.tally.learnt += 1,
                    ActivationPlan::Bootstrap { .. } | ActivationPlan::New => {
                        self.tally.bootstrapped += 1;
                    }
                }
            }
            enrolment.ended(step.node, ActivationOutcome::Done, self.now);
        }
    }

    fn check(&mut self, id: usize, out: &[Action]) {
        for action in out {
            match action {
                Action::Acquired { token, .. } => {
                    self.tally.acquired += 1;
                    self.tally.raised += u32::from(
                        self.params.proposal.is_some() && {
                            self.attempts[id].params.proposal != Some(*token)
                        },
                    );
                    self.check_exclusion(id);
                    if self.params.proposal.is_some() {
                        self.check_token(id, *token);
                    }
                }
                Action::Refused(_) => self.tally.refused += 1,
                Action::Renewed { .. } => self.tally.renewed += 1,
                Action::Lost(_) => self.tally.lost += 1,
                Action::Orphaned { .. } => self.tally.orphaned += 1,
                Action::Released(_) => self.tally.released += 1,
                Action::Send { .. } | Action::Renewing | Action::Extended(_) => {}
            }
        }
    }

    fn check_exclusion(&self, id: usize) {
        let others = self.attempts.iter().filter(|other| other.id != id && !self.broken);
        for other in others {
            assert!(!other.is_held(self.now), "{id} and {} both hold", other.id);
        }
    }

    fn check_token(&self, id: usize, token: u64) {
        if !self.broken && !self.restarted {
            assert_eq!(token, self.newest(), "tokens grow in the order of the grants");
        }
        assert!(token > self.before[id], "{token} is not above {}", self.before[id]);
        for other in self.attempts.iter().filter(|other| other.id != id) {
            let Some(theirs) = other.token else { continue };
            let apart = token > block_end(theirs, 256) || theirs > block_end(token, 256);
            assert!(apart, "the blocks of {token} and {theirs} overlap");
        }
    }

    /// All holders release, and the network delivers all messages: then no node stores a key of a
    /// lease that it did not report as orphaned.
    pub(super) fn finish(&mut self) -> Tally {
        for id in 0..self.attempts.len() {
            if self.attempts[id].is_open() {
                self.event(id, Event::Release { awaited: true });
            }
            for node in 0..self.nodes.len() {
                while !self.attempts[id].requests[node].is_empty() {
                    self.execute(id, node, None);
                }
            }
            while !self.attempts[id].replies.is_empty() {
                self.deliver(id, 0, false);
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let left = node.key(self.now).and_then(|key| key.lease);
            let told = left.is_none_or(|id| self.attempts[id].orphaned[index]);
            assert!(told, "node {index} keeps a key and nobody knows");
        }
        self.tally
    }
}
