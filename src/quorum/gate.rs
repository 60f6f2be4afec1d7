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
pub struct Gate {
    /// The node's index.
    pub node: usize,
    /// How long it has for an answer before the others are asked all the same.
    pub patience: Duration,
}

/// An attempt stands before its gate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gated {
    pub(super) node: usize,
    pub(super) until: Timestamp,
}

impl Lease {
    /// Asks the node of the gate alone, if there is one that makes sense.
    pub(super) fn stand_before_gate(&mut self, now: Timestamp) {
        let Some(Gate { node, patience }) = self.terms.gate else { return };
        if node >= self.terms.nodes || self.terms.nodes < 3 {
            return;
        }
        self.gated = Some(Gated { node, until: now + patience });
        for (_, ballot) in self.ballots.iter_mut().enumerate().filter(|(i, _)| *i != node) {
            // Nothing was sent there, so nothing is to be given back.
            ballot.may_hold = false;
            ballot.release = Release::Acknowledged { existed: false };
        }
    }

    /// What the gate says. True if the attempt goes no further for now.
    pub(super) fn is_kept_out(&mut self, now: Timestamp, out: &mut Vec<Action>) -> bool {
        let Some(gated) = self.gated else { return false };
        match &self.ballots[gated.node].vote {
            Some(VoteOutcome::Held { owner, remaining }) => {
                let refusal = Refusal::Held { expires_in: *remaining, owner: owner.clone() };
                self.gated = None;
                self.kept_out = true;
                self.send_releases(out);
                self.phase = Phase::Ended;
                out.push(Action::Refused(refusal));
                true
            }
            None if now < gated.until => true,
            _ => {
                self.open_gate(gated, now, out);
                // A lone word of the gate decides nothing.
                true
            }
        }
    }

    fn open_gate(&mut self, gated: Gated, now: Timestamp, out: &mut Vec<Action>) {
        self.gated = None;
        self.timeout_at = now + self.terms.node_timeout;
        let (token, expires) =
            (self.terms.proposal.unwrap_or(0), self.started + self.terms.validity);
        for node in (0..self.terms.nodes).filter(|node| *node != gated.node) {
            self.ballots[node] = Ballot::new();
            Self::send(node, Command::Acquire { token, expires }, out);
        }
    }
}
