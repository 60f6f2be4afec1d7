//! The steps of a world of leases.

use std::time::Duration;

use super::{
    lock::{
        LinkRequest, LockFault, LockRule, LockState, LockWorld, OpenLease, Outcome, Stray, TICK,
    },
    sort_key,
};
use crate::{
    protocol::{Answer, GrantedAnswer, RaisedAnswer},
    quorum::{
        Action, Event, Lease, LeaseCommand, NextHolder,
        tests::node::{ModelNode, op_id, wall},
    },
    timestamp::Timestamp,
    vote::Reason,
};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum LockStep {
    /// A tick passes.
    Tick,
    /// A client requests the lock.
    Start { client: usize },
    /// A node runs the oldest request of a connection.
    Run { client: usize, link: usize },
    /// A node runs a request that had left its connection.
    RunStray { index: usize },
    /// An answer arrives; `again` if it will arrive once more.
    Deliver { client: usize, link: usize, index: usize, again: bool },
    /// A connection breaks. Its oldest request may still run.
    Break { client: usize, link: usize },
    /// A request is sent twice.
    Duplicate { client: usize, link: usize },
    /// The lease is woken at the time that it asked for, or later.
    Wake { client: usize },
    /// The holder asks for an extension.
    Extend { client: usize },
    /// The holder hands the lease to the next one of its client.
    HandOn { client: usize },
    /// The holder releases the lock, and its client keeps the lease for the next one.
    Linger { client: usize },
    /// The exclusive lease becomes a shared one.
    Downgrade { client: usize },
    /// The holder releases the lock.
    Release { client: usize },
    /// A node loses its data.
    Crash { node: usize },
    /// A node that forgot votes again.
    Activate { node: usize },
}

impl LockWorld {
    pub(super) fn possible_steps(&self, state: &LockState, steps: &mut Vec<LockStep>) {
        if state.tick < self.ticks {
            steps.push(LockStep::Tick);
        }
        for (client, of_client) in state.clients.iter().enumerate() {
            let may_start = usize::from(state.tick) >= client * self.apart;
            if may_start && of_client.lease.is_none() && of_client.attempts < self.budget.attempts {
                steps.push(LockStep::Start { client });
            }
            for (link, of_link) in of_client.links.iter().enumerate() {
                if !of_link.requests.is_empty() {
                    steps.push(LockStep::Run { client, link });
                    if state.budget.breaks > 0 {
                        steps.push(LockStep::Break { client, link });
                    }
                    if state.budget.duplicates > 0 {
                        steps.push(LockStep::Duplicate { client, link });
                    }
                }
                for index in 0..of_link.replies.len() {
                    steps.push(LockStep::Deliver { client, link, index, again: false });
                    if state.budget.duplicates > 0 {
                        steps.push(LockStep::Deliver { client, link, index, again: true });
                    }
                }
            }
            if let Some(open) = &of_client.lease {
                if open.lease.next_wake().is_some_and(|due| due <= state.now()) {
                    steps.push(LockStep::Wake { client });
                }
                if open.held_until.is_some() && state.budget.extends > 0 {
                    steps.push(LockStep::Extend { client });
                }
                let is_here = open.held_until.is_some() || open.lease.is_lingering();
                if is_here && open.lease.can_be_handed_on(state.now()) {
                    if state.budget.hand_offs > 0 {
                        steps.push(LockStep::HandOn { client });
                    }
                    if state.budget.lingers > 0 && !open.lease.is_lingering() {
                        steps.push(LockStep::Linger { client });
                    }
                }
                if open.held_until.is_some() && !open.is_shared && state.budget.downgrades > 0 {
                    steps.push(LockStep::Downgrade { client });
                }
                if is_here || self.drops {
                    steps.push(LockStep::Release { client });
                }
            }
        }
        steps.extend((0..state.strays.len()).map(|index| LockStep::RunStray { index }));
        for node in 0..state.nodes.len() {
            match state.forgot[node] {
                None if state.budget.crashes > 0 => steps.push(LockStep::Crash { node }),
                Some(since) if self.may_activate(state, since) => {
                    steps.push(LockStep::Activate { node });
                }
                _ => {}
            }
        }
    }

    /// R6: after a TTL, and with N−q+1 other nodes that vote.
    fn may_activate(&self, state: &LockState, since: u8) -> bool {
        let waited = TICK * u32::from(state.tick - since);
        let others = state.nodes.iter().filter(|node| node.active).count();
        (waited >= self.ttl() || !self.has(LockRule::Wait)) && others >= 2
    }

    /// Returns the node of a client's connection.
    fn node_of(&self, client: usize, link: usize) -> usize {
        if self.has(LockRule::SameLayout) { link } else { (link + client) % self.nodes }
    }

    pub(super) fn take(&self, state: &mut LockState, step: &LockStep) {
        match *step {
            LockStep::Tick => {
                state.tick += 1;
                let now = state.now();
                // Expired keys are removed, so that states which differ only in them are equal.
                for node in &mut state.nodes {
                    node.expire(now);
                }
            }
            LockStep::Start { client } => self.start(state, client),
            LockStep::Run { client, link } => {
                let Some(request) = state.clients[client].links[link].requests.pop_front() else {
                    return;
                };
                let node = self.node_of(client, link);
                let result = self.run(state, node, request);
                let answered = !matches!(request.command, LeaseCommand::Release);
                let client = &mut state.clients[client];
                if answered && client.lease.as_ref().is_some_and(|open| open.has_sent(request)) {
                    client.links[link].replies.push((request.command, result));
                    sort_replies(&mut client.links[link].replies);
                }
            }
            LockStep::RunStray { index } => {
                let Stray { node, request } = state.strays.remove(index);
                let _lost = self.run(state, node, request);
            }
            LockStep::Deliver { client, link, index, again } => {
                let replies = &mut state.clients[client].links[link].replies;
                let (command, result) = if again {
                    state.budget.duplicates -= 1;
                    replies[index].clone()
                } else {
                    replies.remove(index)
                };
                let op = op_id(command);
                let event = Event::Answer { node: link, op, result, view: None };
                self.handle(state, client, event);
            }
            LockStep::Break { client, link } => {
                state.budget.breaks -= 1;
                let of_link = &mut state.clients[client].links[link];
                let Some(request) = of_link.requests.pop_front() else { return };
                let node = self.node_of(client, link);
                state.strays.push(Stray { node, request });
                let command = request.command;
                let open = state.clients[client].lease.as_ref();
                let is_open = open.is_some_and(|open| open.has_sent(request));
                if is_open && command != LeaseCommand::Release {
                    let result = Err(Reason::Disconnected);
                    let event =
                        Event::Answer { node: link, op: op_id(command), result, view: None };
                    self.handle(state, client, event);
                }
            }
            LockStep::Duplicate { client, link } => {
                state.budget.duplicates -= 1;
                let request = state.clients[client].links[link].requests[0];
                let node = self.node_of(client, link);
                state.strays.push(Stray { node, request });
            }
            LockStep::Wake { client } => self.handle(state, client, Event::Wake),
            LockStep::Extend { client } => {
                state.budget.extends -= 1;
                self.handle(state, client, Event::Extend);
            }
            LockStep::HandOn { client } => self.hand_on(state, client),
            LockStep::Downgrade { client } => self.downgrade(state, client),
            LockStep::Linger { client } => {
                state.budget.lingers -= 1;
                let now = state.now();
                if let Some(open) = &mut state.clients[client].lease
                    && open.lease.linger(Timestamp::MAX, now)
                {
                    open.held_until = None;
                }
            }
            LockStep::Release { client } => {
                if let Some(open) = &mut state.clients[client].lease {
                    open.held_until = None;
                }
                self.handle(state, client, Event::Release { awaited: false });
                close(state, client);
            }
            LockStep::Crash { node } => {
                state.budget.crashes -= 1;
                state.nodes[node].restart(false);
                state.forgot[node] = Some(state.tick);
            }
            LockStep::Activate { node } => {
                let fences =
                    state.nodes.iter().filter(|other| other.active).map(|other| other.fence);
                let learnt = fences.max().unwrap_or(0);
                state.nodes[node].active = true;
                state.nodes[node].fence = if self.has(LockRule::Learn) { learnt } else { 0 };
                state.forgot[node] = None;
                state.reached.push(Outcome::Activated);
            }
        }
        state.strays.sort_by_cached_key(sort_key);
    }

    fn start(&self, state: &mut LockState, client: usize) {
        let of_client = &mut state.clients[client];
        let id = usize::from(of_client.attempts) * self.clients + client;
        of_client.attempts += 1;
        let mut out = Vec::new();
        let now = state.now();
        // All propose the same, as clients whose clocks are behind do; so every later one has to
        // raise.
        let params = self.params(client, wall(Timestamp::ZERO));
        let lease = Lease::start(params, now, &mut out);
        let before = if self.is_shared(client) { state.newest_alone } else { state.newest + 1 };
        let is_shared = self.is_shared(client);
        let open = OpenLease { id, is_shared, lease, held_until: None, before };
        state.clients[client].lease = Some(open);
        self.follow(state, client, out);
    }

    fn handle(&self, state: &mut LockState, client: usize, event: Event) {
        let now = state.now();
        let mut out = Vec::new();
        let Some(open) = &mut state.clients[client].lease else { return };
        let lingered = open.lease.is_lingering();
        open.lease.handle(event, now, &mut out);
        let is_over = lingered && !open.lease.is_lingering();
        self.follow(state, client, out);
        if is_over {
            close(state, client);
        }
    }

    fn follow(&self, state: &mut LockState, client: usize, out: Vec<Action>) {
        for action in out {
            let now = state.now();
            let Some(open) = &mut state.clients[client].lease else { return };
            match action {
                Action::Send { node, command } => {
                    let request = LinkRequest { id: open.id, is_shared: open.is_shared, command };
                    state.clients[client].links[node].requests.push_back(request);
                }
                Action::Acquired { token, until } => {
                    state.reached.push(Outcome::Acquired);
                    if self.fencing && token != open.lease.number(0) {
                        state.reached.push(Outcome::Raised);
                    }
                    let until =
                        if self.has(LockRule::CountFromStart) { until } else { now + self.ttl() };
                    open.held_until = Some(until);
                    if self.fencing && token < open.before {
                        state.fault = Some(LockFault::TokenOrder);
                    }
                    state.newest = state.newest.max(token);
                    if !self.is_shared(client) {
                        state.newest_alone = state.newest_alone.max(token);
                    }
                    if state.holders().0 > 1 {
                        state.reached.push(Outcome::Shared);
                    }
                    self.check_keys(state, client, until);
                }
                Action::Renewed { until } => {
                    state.reached.push(Outcome::Renewed);
                    open.held_until = Some(until);
                    self.check_keys(state, client, until);
                }
                Action::Lost(_) => {
                    state.reached.push(Outcome::Lost);
                    open.held_until = None;
                }
                Action::Refused(_) => {
                    state.reached.push(Outcome::Refused);
                    close(state, client);
                }
                Action::Renewing
                | Action::Extended(_)
                | Action::Orphaned { .. }
                | Action::Released(_) => {}
            }
        }
    }

    /// Where no node forgot, a quorum keeps the key until the end of the lease.
    fn check_keys(&self, state: &mut LockState, client: usize, until: Timestamp) {
        if state.budget.crashes < self.budget.crashes {
            return;
        }
        let now = state.now();
        let Some(open) = &state.clients[client].lease else { return };
        // A grant that arrives after the end is checked by its end.
        let is_kept =
            |node: &&ModelNode| node.holds(open.id, now) || node.is_shared_with(open.id, now);
        let keeps = |node: &&ModelNode| is_kept(node) && node.holds_until(open.id, until);
        if state.nodes.iter().filter(keeps).count() < 2 {
            state.fault = Some(LockFault::Unbacked);
        }
    }

    fn hand_on(&self, state: &mut LockState, client: usize) {
        state.budget.hand_offs -= 1;
        let now = state.now();
        let Some(open) = &mut state.clients[client].lease else { return };
        let next = NextHolder { max_hold: Duration::MAX, auto_extend: false };
        let lingered = open.lease.is_lingering();
        let Some(hand_off) = open.lease.hand_on(next, now) else { return };
        let until = if self.has(LockRule::KeptEnd) { hand_off.until } else { now + self.ttl() };
        open.held_until = Some(until);
        state.reached.push(if lingered { Outcome::TakenOver } else { Outcome::HandedOn });
        if self.fencing && hand_off.token <= state.newest {
            state.fault = Some(LockFault::TokenOrder);
        }
        state.newest = state.newest.max(hand_off.token);
        state.newest_alone = state.newest_alone.max(hand_off.token);
    }

    fn downgrade(&self, state: &mut LockState, client: usize) {
        let now = state.now();
        let of_client = &mut state.clients[client];
        let Some(open) = &mut of_client.lease else { return };
        let next = NextHolder { max_hold: TICK * 100, auto_extend: false };
        let mut out = Vec::new();
        let downgraded = open.lease.downgrade(next, wall(Timestamp::ZERO), now, &mut out);
        let Some((lease, hand_off)) = downgraded else { return };
        state.budget.downgrades -= 1;
        (open.lease, open.is_shared, open.held_until) = (lease, true, Some(hand_off.until));
        let (id, before) = (open.id, open.before);
        // Answers to the exclusive lease are dropped.
        of_client.links.iter_mut().for_each(|link| link.replies.clear());
        state.reached.push(Outcome::Downgraded);
        if self.fencing && hand_off.token < before.max(state.newest_alone) {
            state.fault = Some(LockFault::TokenOrder);
        }
        state.newest = state.newest.max(hand_off.token);
        if !self.has(LockRule::KeepUntilShared) {
            // As a release, and then an attempt at a shared lease.
            let command = LeaseCommand::Release;
            let release = LinkRequest { id, is_shared: false, command };
            state.clients[client]
                .links
                .iter_mut()
                .for_each(|link| link.requests.push_back(release));
        }
        self.follow(state, client, out);
    }

    /// Runs a command as a server does, without the rules that are turned off.
    fn run(
        &self,
        state: &mut LockState,
        node: usize,
        LinkRequest { id, is_shared, command }: LinkRequest,
    ) -> Result<Answer, Reason> {
        let now = state.now();
        let node = &mut state.nodes[node];
        if command == LeaseCommand::Release && !self.has(LockRule::CompareOnRelease) {
            node.key = None;
        }
        if command == LeaseCommand::Release && is_shared && !self.has(LockRule::KeepOthers) {
            node.shared.clear();
        }
        if is_shared && !self.has(LockRule::RefuseSharers) {
            node.key = None;
        }
        if !self.has(LockRule::Fences) || (is_shared && !self.has(LockRule::SharedFences)) {
            node.fence = 0;
        }
        let held_before = node.holds(id, now) || node.is_shared_with(id, now);
        let result = node.run_as(id, command, now, is_shared);
        if let LeaseCommand::Acquire { expires: end, .. } | LeaseCommand::Extend { until: end, .. } =
            command
            && !held_before
            && (node.holds(id, now) || node.is_shared_with(id, now))
            && now >= end
        {
            state.fault = Some(LockFault::LateKey);
        }
        match result {
            Ok(Answer::Granted(GrantedAnswer { fence, .. })) if !self.has(LockRule::Fences) => {
                Ok(Answer::Granted(GrantedAnswer { accepted: true, fence }))
            }
            Ok(Answer::Raised(RaisedAnswer { fence, .. })) if !self.has(LockRule::Fences) => {
                Ok(Answer::Raised(RaisedAnswer { accepted: true, fence }))
            }
            result => result,
        }
    }
}

/// Sorts answers in flight, because their order does not belong to the state.
fn sort_replies(replies: &mut [(LeaseCommand, Result<Answer, Reason>)]) {
    replies.sort_by_cached_key(sort_key);
}

/// Forgets a lease that is over; its requests are still under way.
fn close(state: &mut LockState, client: usize) {
    let client = &mut state.clients[client];
    client.lease = None;
    for link in &mut client.links {
        link.replies.clear();
    }
}
