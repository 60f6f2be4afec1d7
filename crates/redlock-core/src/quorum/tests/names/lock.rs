//! Attempts, extensions and tokens: votes come one by one.

use std::sync::Arc;

use super::{
    plain::PlainVote,
    rule::RulePart,
    step::Violation,
    world::{CLIENTS, NAMES, NamesWorld, PerName, Tick, WorldKey},
};
use crate::protocol::views::{View, largest_group};

/// A node's latest grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelGrant {
    pub(crate) view: Arc<View>,
    /// Whether it accepted the number of the present round.
    pub(crate) accepted: bool,
    /// The start of the latest request that set the key's TTL.
    pub(crate) confirmed: Tick,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelLease {
    pub(crate) id: u16,
    /// The start of the attempt, or of the present round of extension.
    pub(crate) started: Tick,
    /// The largest token of a lease that was completed before.
    pub(crate) after: u16,
    /// The machines that the requests were sent to.
    pub(crate) targets: PerName<Option<usize>>,
    pub(crate) asked: PerName<bool>,
    pub(crate) grants: PerName<Option<ModelGrant>>,
    pub(crate) plain: PerName<PlainVote>,
    /// The number that is proposed or raised.
    pub(crate) number: u16,
    pub(crate) raising: bool,
    pub(crate) seen: u16,
    /// The end of the validity, once the lock is held.
    pub(crate) until: Option<Tick>,
}

impl NamesWorld {
    pub(crate) fn holds(&self, client: usize) -> bool {
        let until = self.leases[client].as_ref().and_then(|lease| lease.until);
        until.is_some_and(|until| self.client_now(client) < until)
    }

    pub(crate) fn holders(&self) -> usize {
        (0..CLIENTS).filter(|&client| self.holds(client)).count()
    }

    fn is_acquiring(&self, client: usize) -> bool {
        let (now, validity) = (self.client_now(client), self.setup.validity());
        let lease = self.leases[client].as_ref();
        lease.is_some_and(|l| l.until.is_none() && now < l.started + validity)
    }

    pub(crate) fn attempt(&mut self, client: usize) -> bool {
        if self.leases[client].is_some() {
            return false;
        }
        self.attempts += 1;
        let number = self.known[client] + 1;
        self.top = self.top.max(number);
        self.leases[client] = Some(ModelLease {
            id: self.attempts,
            started: self.client_now(client),
            after: self.issued.iter().copied().max().unwrap_or(0),
            targets: self.drivers[client].conn,
            asked: [false; NAMES],
            grants: std::array::from_fn(|_| None),
            plain: std::array::from_fn(|_| PlainVote::None),
            number,
            raising: false,
            seen: 0,
            until: None,
        });
        true
    }

    /// Returns the machine that must answer a request of the client's lease that it has not
    /// answered yet.
    fn asked(&mut self, client: usize, node: usize) -> Option<usize> {
        let lease = self.leases[client].as_mut()?;
        let machine = lease.targets[node]?;
        (!std::mem::replace(&mut lease.asked[node], true)).then_some(machine)
    }

    pub(crate) fn vote(&mut self, client: usize, node: usize) -> bool {
        if !self.is_acquiring(client) || self.leases[client].as_ref().is_none_or(|l| l.raising) {
            return false;
        }
        let lease = self.leases[client].as_ref().expect("it is under way");
        if let Some(machine) = lease.targets[node].filter(|_| !lease.asked[node])
            && self.plain_vote(client, node, machine)
        {
            return true;
        }
        let Some(machine) = self.asked(client, node) else { return false };
        let (now, ttl) = (self.server_now(node, machine), self.setup.ttl);
        if !self.is_enrolled(node, machine) || !self.server(node, machine).active {
            return true;
        }
        let lease = self.leases[client].as_mut().expect("it is under way");
        let server = &mut self.servers[node * self.setup.machines + machine];
        if server.lease(now).is_some_and(|other| other != lease.id) {
            return true;
        }
        server.key = Some(WorldKey { lease: lease.id, expires: now + ttl });
        let accepted = lease.number > server.fence;
        lease.seen = lease.seen.max(server.fence);
        server.fence = server.fence.max(lease.number);
        let view = Arc::clone(server.view.as_ref().expect("it is enrolled"));
        lease.grants[node] = Some(ModelGrant { view, accepted, confirmed: lease.started });
        self.decide(client);
        true
    }

    /// Returns the size of the largest group among the grants that `counts` chooses.
    fn group(&self, client: usize, counts: impl Fn(&ModelGrant) -> bool) -> usize {
        let Some(lease) = &self.leases[client] else { return 0 };
        let views = match lease.until {
            Some(_) => self.has(RulePart::Views) && self.has(RulePart::ViewsOnExtensions),
            None => self.has(RulePart::Views),
        };
        let chosen = lease.grants.iter().flatten().filter(|grant| counts(grant));
        largest_group(chosen.map(|grant| views.then_some(&grant.view))).0
    }

    pub(super) fn decide(&mut self, client: usize) {
        if self.group(client, |grant| grant.accepted) < self.quorum() {
            return;
        }
        let validity = self.setup.validity();
        let lease = self.leases[client].as_mut().expect("it is under way");
        lease.until = Some(lease.started + validity);
        let (token, after) = (lease.number, lease.after);
        self.known[client] = self.known[client].max(token);
        if self.issued.contains(&token) {
            self.violation = Some(Violation::TokenIssuedTwice);
        } else if token <= after {
            self.violation = Some(Violation::TokenNotGreater);
        }
        self.issued.push(token);
    }

    pub(crate) fn raise(&mut self, client: usize) -> bool {
        let granted = self.group(client, |_| true);
        if !self.is_acquiring(client) || granted < self.quorum() {
            return false;
        }
        let lease = self.leases[client].as_mut().expect("it is under way");
        if lease.raising && lease.seen < lease.number {
            return false;
        }
        lease.raising = true;
        lease.number = lease.seen.max(lease.number) + 1;
        self.top = self.top.max(lease.number);
        for node in 0..NAMES {
            lease.asked[node] = lease.grants[node].is_none();
            if let Some(grant) = &mut lease.grants[node] {
                grant.accepted = false;
            }
        }
        true
    }

    pub(crate) fn raise_vote(&mut self, client: usize, node: usize) -> bool {
        if !self.is_acquiring(client) || self.leases[client].as_ref().is_none_or(|l| !l.raising) {
            return false;
        }
        let Some(machine) = self.asked(client, node) else { return false };
        let active = self.is_enrolled(node, machine) && self.server(node, machine).active;
        let (now, views) = (self.server_now(node, machine), self.has(RulePart::Views));
        let server = &mut self.servers[node * self.setup.machines + machine];
        let lease = self.leases[client].as_mut().expect("it is under way");
        let Some(grant) = &mut lease.grants[node] else { return true };
        let same = !views || server.view.as_ref() == Some(&grant.view);
        if !active || !same || server.lease(now) != Some(lease.id) {
            lease.grants[node] = None;
            return true;
        }
        grant.accepted = lease.number > server.fence;
        lease.seen = lease.seen.max(server.fence);
        server.fence = server.fence.max(lease.number);
        self.decide(client);
        true
    }

    pub(crate) fn extend(&mut self, client: usize) -> bool {
        if !self.holds(client) {
            return false;
        }
        let now = self.client_now(client);
        let targets = self.drivers[client].conn;
        let lease = self.leases[client].as_mut().expect("it is held");
        if lease.started == now {
            return false;
        }
        (lease.started, lease.targets, lease.asked) = (now, targets, [false; NAMES]);
        true
    }

    pub(crate) fn extend_vote(&mut self, client: usize, node: usize) -> bool {
        if !self.holds(client) {
            return false;
        }
        let Some(machine) = self.asked(client, node) else { return false };
        let (now, quorum) = (self.server_now(node, machine), self.quorum());
        let (ttl, validity) = (self.setup.ttl, self.setup.validity());
        let enrolled = self.is_enrolled(node, machine);
        let in_probation = !self.has(RulePart::NoExtensionsInProbation);
        let lease = self.leases[client].as_mut().expect("it is held");
        let server = &mut self.servers[node * self.setup.machines + machine];
        let own = match server.lease(now) {
            Some(other) if other != lease.id => {
                lease.grants[node] = None;
                return true;
            }
            own => own.is_some(),
        };
        if !enrolled || !(server.active || (own && in_probation)) {
            return true;
        }
        server.key = Some(WorldKey { lease: lease.id, expires: now + ttl });
        let view = Arc::clone(server.view.as_ref().expect("it is enrolled"));
        lease.grants[node] = Some(ModelGrant { view, accepted: true, confirmed: lease.started });
        let starts: PerName<Option<Tick>> =
            std::array::from_fn(|n| lease.grants[n].as_ref().map(|grant| grant.confirmed));
        let confirmed = starts
            .iter()
            .flatten()
            .copied()
            .filter(|&from| self.group(client, |grant| grant.confirmed >= from) >= quorum);
        if let Some(confirmed) = confirmed.max() {
            let lease = self.leases[client].as_mut().expect("it is held");
            lease.until = lease.until.max(Some(confirmed + validity));
        }
        true
    }

    pub(crate) fn release(&mut self, client: usize, deletes: bool) -> bool {
        let Some(lease) = self.leases[client].take() else { return false };
        for server in &mut self.servers {
            if deletes && server.key.is_some_and(|key| key.lease == lease.id) {
                server.key = None;
            }
        }
        true
    }
}
