//! A vote by two plain commands: the first stores the key, the second finds the fences of the view and
//! raises the fence. Other steps may come between them.

use std::sync::Arc;

use super::{
    lock::ModelGrant,
    rule::RulePart,
    world::{NamesWorld, WorldKey},
};
use crate::protocol::views::View;

/// How far a vote by plain commands has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlainVote {
    /// Nothing was sent.
    #[default]
    None,
    /// `SET` has run. The view is the one that the client read, and names the fences.
    Set { view: Arc<View>, stored: bool },
    /// The commands were not a grant: the script is sent.
    Refused,
}

impl NamesWorld {
    /// Runs the next of the two commands of a vote. Returns whether there was one; afterwards the vote is the
    /// script's, unless it was granted.
    pub(crate) fn plain_vote(&mut self, client: usize, node: usize, machine: usize) -> bool {
        if !self.setup.plain {
            return false;
        }
        let vote = &mut self.leases[client].as_mut().expect("it is under way").plain[node];
        let next = match std::mem::replace(vote, PlainVote::Refused) {
            PlainVote::Refused => return false,
            PlainVote::None => {
                // Without a vote that the client knows of, it sends the script.
                let read = self.drivers[client].reads[node].clone();
                let Some(read) = read.filter(|read| read.active && read.machine == machine) else {
                    return false;
                };
                PlainVote::Set { view: read.view, stored: self.set(client, node, machine) }
            }
            PlainVote::Set { view, stored } => {
                let is_accepted = match self.raise_fence(client, node, machine, &view) {
                    Some(is_above) => is_above,
                    None => !self.has(RulePart::SecondCommand),
                };
                if stored && is_accepted {
                    self.grant(client, node, view);
                    return true;
                }
                PlainVote::Refused
            }
        };
        self.leases[client].as_mut().expect("it is under way").plain[node] = next;
        true
    }

    /// `SET NX`: any server stores the key, whether it votes or not.
    fn set(&mut self, client: usize, node: usize, machine: usize) -> bool {
        let (now, ttl) = (self.server_now(node, machine), self.setup.ttl);
        let id = self.leases[client].as_ref().expect("it is under way").id;
        let server = self.server_mut(node, machine);
        if server.lease(now).is_some() {
            return false;
        }
        server.key = Some(WorldKey { lease: id, expires: now + ttl });
        true
    }

    /// `ZADD XX GT`: returns whether the token is above the fence; `None` without fences of this view, which a
    /// server has while it votes under the view.
    fn raise_fence(
        &mut self,
        client: usize,
        node: usize,
        machine: usize,
        view: &View,
    ) -> Option<bool> {
        let names_view = self.has(RulePart::NamedFences);
        let is_active = self.is_enrolled(node, machine) && self.server(node, machine).active;
        let number = self.leases[client].as_ref().expect("it is under way").number;
        let server = self.server_mut(node, machine);
        let is_named = !names_view || server.view.as_deref() == Some(view);
        if !is_active || !is_named {
            return None;
        }
        let is_above = number > server.fence;
        server.fence = server.fence.max(number);
        Some(is_above)
    }

    fn grant(&mut self, client: usize, node: usize, view: Arc<View>) {
        let lease = self.leases[client].as_mut().expect("it is under way");
        let grant = ModelGrant { view, accepted: true, confirmed: lease.started };
        lease.grants[node] = Some(grant);
        lease.asked[node] = true;
        self.decide(client);
    }
}
