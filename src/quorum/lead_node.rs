//! An attempt that asks one node first, and the others only when it granted or did not answer.
//!
//! Contenders that start together and ask all nodes at once may split the votes so that nobody
//! wins. Where all of them ask the same node first, it lets one through; the others have asked one
//! node, and hold nothing.

use std::time::Duration;

use super::{
    ballot::{Ballot, Release},
    event::{Action, Command, Refusal},
    lease::{Lease, Phase},
};
use crate::{error::VoteOutcome, time::Timestamp};

/// The node that is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadNode {
    /// The node's index.
    pub node: usize,
    /// How long it has for an answer before the others are asked all the same.
    pub patience: Duration,
}

/// An attempt that has asked its lead node, and nobody else.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedLead {
    pub(super) node: usize,
    pub(super) until: Timestamp,
}

impl Lease {
    /// Asks the lead node alone, where there are enough nodes for that to help.
    pub(super) fn ask_lead(&mut self, now: Timestamp) {
        let Some(LeadNode { node, patience }) = self.terms.lead_node else { return };
        if node >= self.terms.nodes || self.terms.nodes < 3 {
            return;
        }
        self.asked_lead = Some(AskedLead { node, until: now + patience });
        for (_, ballot) in self.ballots.iter_mut().enumerate().filter(|(i, _)| *i != node) {
            // Nothing was sent there, so nothing is to be given back.
            ballot.may_hold = false;
            ballot.release = Release::Acknowledged { existed: false };
        }
    }

    /// Handles the lead node's answer. Returns whether the attempt goes no further for now.
    pub(super) fn waits_for_lead(&mut self, now: Timestamp, out: &mut Vec<Action>) -> bool {
        let Some(asked_lead) = self.asked_lead else { return false };
        match &self.ballots[asked_lead.node].vote {
            Some(VoteOutcome::Held { owner, remaining }) => {
                let refusal = Refusal::Held { expires_in: *remaining, owner: owner.clone() };
                self.asked_lead = None;
                self.refused_by_lead = true;
                self.send_releases(out);
                self.phase = Phase::Ended;
                out.push(Action::Refused(refusal));
                true
            }
            None if now < asked_lead.until => true,
            _ => {
                self.ask_others(asked_lead, now, out);
                // The lead node's answer alone decides nothing.
                true
            }
        }
    }

    fn ask_others(&mut self, asked_lead: AskedLead, now: Timestamp, out: &mut Vec<Action>) {
        self.asked_lead = None;
        self.timeout_at = now + self.terms.node_timeout;
        let (token, expires) =
            (self.terms.proposal.unwrap_or(0), self.started + self.terms.validity);
        for node in (0..self.terms.nodes).filter(|node| *node != asked_lead.node) {
            self.ballots[node] = Ballot::new();
            Self::send(node, Command::Acquire { token, expires }, out);
        }
    }
}
