use std::{sync::Arc, time::Duration};

use super::{
    ballot::{self, Ballot},
    event::{Action, Command, Event, Halt, Loss},
    fence::Fence,
    lead_node::{AskedLead, LeadNode},
};
use crate::{
    error::{Reason, VoteOutcome},
    protocol::{Answer, OpId, names::View, rules},
    time::Timestamp,
};

/// The terms of one lease.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How many nodes are configured.
    pub nodes: usize,
    /// TTL − drift.
    pub validity: Duration,
    /// What is set aside of the TTL: clocks that jump by less end nothing too early.
    pub slack: Duration,
    /// How long a node has for an answer.
    pub node_timeout: Duration,
    /// The longest time that the lease may be held, renewals included.
    pub max_hold: Duration,
    /// Whether the lease renews itself.
    pub auto_extend: bool,
    /// The proposed fencing token, or none.
    pub proposal: Option<u64>,
    /// How many tokens from there on the lease reserves; at least one.
    pub block: u64,
    /// The node that is asked before the others, if one is.
    pub lead_node: Option<LeadNode>,
}

/// One attempt to hold a resource, and what follows from it.
///
/// A lease belongs to one nonce. It is never reused: the release of one attempt must not delete
/// what the next was granted.
#[derive(Debug)]
pub struct Lease {
    pub(super) terms: Terms,
    pub(super) quorum: usize,
    pub(super) phase: Phase,
    pub(super) ballots: Box<[Ballot]>,
    pub(super) fence: Fence,
    pub(super) started: Timestamp,
    /// The token of the present holder, once the lease is held.
    pub(super) token: u64,
    /// The last token of the lease's block.
    pub(super) last_token: u64,
    /// Since when the present holder may hold it; the attempt's start for the first one.
    pub(super) held_from: Timestamp,
    /// While acquiring: when the nodes that have not answered count as timed out.
    pub(super) timeout_at: Timestamp,
    /// While one node is asked before the others.
    pub(super) asked_lead: Option<AskedLead>,
    /// That node refused, and no other was asked.
    pub(super) refused_by_lead: bool,
    /// Whether the time-out was put off because this process had stood still.
    pub(super) grace_used: bool,
    /// The end of the validity that a quorum confirmed.
    pub(super) valid_until: Timestamp,
    /// Nodes took their confirmations back: no quorum confirms that end any more.
    pub(super) is_disputed: bool,
    /// When the next round of renewal is due.
    pub(super) renew_at: Timestamp,
    /// When the latest round of renewal was started.
    pub(super) round_started: Option<Timestamp>,
    /// The extension that the holder asked for and waits for.
    pub(super) extension: Option<Timestamp>,
    /// Nothing is renewed any more, and why.
    pub(super) halted: Option<Halt>,
    /// While somebody waits for the release: until when.
    pub(super) release_timeout: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Votes are being counted.
    Acquiring,
    /// The attempt is over and the release under way; the verdict waits for late votes.
    Settling,
    Held,
    /// Held once, not any more; the release comes when the holder lets go.
    Lost,
    /// Given back.
    Ended,
}

impl Lease {
    /// Starts an attempt at `now`, which every later validity counts from.
    ///
    /// # Panics
    ///
    /// If the terms name no nodes.
    pub fn start(terms: Terms, now: Timestamp, out: &mut Vec<Action>) -> Self {
        assert!(terms.nodes > 0, "a lease needs at least one node");
        let timeout_at = now + terms.node_timeout;
        let token = terms.proposal.unwrap_or(0);
        let expires = now + terms.validity;
        let mut lease = Self {
            terms,
            quorum: rules::quorum(terms.nodes),
            phase: Phase::Acquiring,
            ballots: vec![Ballot::new(); terms.nodes].into_boxed_slice(),
            fence: Fence::new(token, terms.block),
            started: now,
            token: 0,
            last_token: 0,
            held_from: now,
            timeout_at,
            asked_lead: None,
            refused_by_lead: false,
            grace_used: false,
            valid_until: expires,
            is_disputed: false,
            renew_at: Timestamp::MAX,
            round_started: None,
            extension: None,
            halted: None,
            release_timeout: None,
        };
        lease.ask_lead(now);
        let only = lease.asked_lead.map(|asked_lead| asked_lead.node);
        for node in (0..terms.nodes).filter(|node| only.is_none_or(|only| only == *node)) {
            out.push(Action::Send { node, command: Command::Acquire { token, expires } });
        }
        lease
    }

    /// Takes an event at the moment `now` and appends what is to be done to `out`.
    ///
    /// `now` must not go back from call to call.
    pub fn handle(&mut self, event: Event, now: Timestamp, out: &mut Vec<Action>) {
        match event {
            Event::Answer { node, op, result, view } => {
                self.on_answer(node, op, (result, view), now, out);
            }
            Event::NotSent { node, op, reason } => {
                if op == OpId::Acquire && self.ballots[node].is_pending() {
                    self.ballots[node].rule_out(None);
                }
                self.on_answer(node, op, (Err(reason), None), now, out);
            }
            Event::Wake => match self.phase {
                Phase::Acquiring | Phase::Settling => self.on_attempt_wake(now, out),
                Phase::Held => self.on_held_wake(now, out),
                Phase::Lost => {}
                Phase::Ended => self.on_release_wake(now, out),
            },
            Event::Unsound { node, seen, by_micros, at_most } => {
                self.on_unsound(node, (seen, by_micros, at_most), now, out);
            }
            Event::Expired => {
                if self.phase == Phase::Held {
                    let votes = self.renewal_votes();
                    self.lose(Loss::Expired { votes }, out);
                }
            }
            Event::Stop => {
                if self.phase == Phase::Held {
                    self.run_out(out);
                }
            }
            Event::Extend => self.extend(now, out),
            Event::Halt(why) => self.halt(why, now, out),
            Event::Release { awaited } => self.release(awaited, now, out),
        }
    }

    fn on_answer(
        &mut self,
        node: usize,
        op: OpId,
        (result, view): (Result<Answer, Reason>, Option<Arc<View>>),
        now: Timestamp,
        out: &mut Vec<Action>,
    ) {
        match op {
            OpId::Acquire => self.on_vote(node, (result, view), now, out),
            OpId::Raise(round) => self.on_raise(node, round, (&result, view), now, out),
            OpId::Extend(started) => self.on_extension(node, started, (result, view), now, out),
            OpId::Release => self.on_release_answer(node, result, out),
        }
    }

    /// When [`Event::Wake`] is due next.
    pub fn next_wake(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Acquiring | Phase::Settling => Some(
                self.asked_lead
                    .map_or(self.timeout_at, |asked_lead| asked_lead.until.min(self.timeout_at)),
            ),
            Phase::Held => {
                let extension = self.extension.map(|started| started + self.terms.node_timeout);
                let next = self.end().min(self.renew_at);
                Some(extension.map_or(next, |at| next.min(at)))
            }
            Phase::Lost => None,
            Phase::Ended => self.release_timeout,
        }
    }

    /// The end of the lease as it stands: of the validity, or of the time it may be held.
    pub fn end(&self) -> Timestamp {
        self.valid_until.min(self.hold_until())
    }

    /// How many nodes' latest word is that the key is ours.
    pub fn granted(&self) -> usize {
        ballot::count(&self.ballots, Ballot::is_granted)
    }

    /// What each node said last.
    pub fn votes(&self) -> Vec<VoteOutcome> {
        ballot::shown(&self.ballots)
    }

    /// The attempt was refused by the node that was asked first, and no other was asked: one word,
    /// and no verdict.
    pub fn refused_by_lead(&self) -> bool {
        self.refused_by_lead
    }

    pub(super) fn hold_until(&self) -> Timestamp {
        self.held_from + self.terms.max_hold
    }

    pub(super) fn send(node: usize, command: Command, out: &mut Vec<Action>) {
        out.push(Action::Send { node, command });
    }
}
