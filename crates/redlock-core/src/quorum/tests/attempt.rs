//! One lease with its traffic. Every action is checked against the answers of the nodes, and
//! against the keys that they keep.

use std::collections::VecDeque;

use super::{
    heard_answers::HeardAnswers,
    node::{ModelNode, op_id},
};
use crate::{
    protocol::Answer,
    quorum::{
        Action, Event, HandOff, Lease, LeaseCommand, LeaseParams, Loss, NextHolder, ReleaseVerdict,
    },
    timestamp::Timestamp,
    token::block_end,
    vote::Reason,
};

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub(super) struct Attempt {
    pub(super) id: usize,
    pub(super) lease: Lease,
    pub(super) params: LeaseParams,
    pub(super) started: Timestamp,
    /// Commands under way to each node, oldest first.
    pub(super) requests: Vec<VecDeque<LeaseCommand>>,
    /// Answers under way, in any order.
    pub(super) replies: Vec<ReplyInTransit>,
    /// The first holder's token: where the block starts.
    pub(super) token: Option<u64>,
    /// The present holder's token.
    pub(super) newest: Option<u64>,
    /// Start of the present holder's hold.
    held_from: Timestamp,
    /// The end of the lease, once it was held.
    pub(super) until: Option<Timestamp>,
    pub(super) refused: bool,
    /// Its process keeps it, without a holder.
    pub(super) lingers: bool,
    pub(super) lost: bool,
    pub(super) released: bool,
    pub(super) orphaned: Vec<bool>,
    heard: Vec<HeardAnswers>,
    /// Nodes that were sent a command.
    asked: Vec<bool>,
}

#[derive(Clone, Debug)]
pub(super) struct ReplyInTransit {
    pub(super) node: usize,
    pub(super) command: LeaseCommand,
    pub(super) result: Result<Answer, Reason>,
}

impl Attempt {
    pub(super) fn start(id: usize, params: LeaseParams, now: Timestamp) -> Self {
        let mut out = Vec::new();
        let lease = Lease::start(params, now, &mut out);
        let mut this = Self {
            id,
            lease,
            params,
            started: now,
            requests: vec![VecDeque::new(); params.nodes],
            replies: Vec::new(),
            token: None,
            newest: None,
            held_from: now,
            until: None,
            refused: false,
            lingers: false,
            lost: false,
            released: false,
            orphaned: vec![false; params.nodes],
            heard: vec![HeardAnswers::default(); params.nodes],
            asked: vec![false; params.nodes],
        };
        let asks_lead = params.lead_node.is_some() && params.nodes > 2;
        let first = if asks_lead { 1 } else { params.nodes };
        assert_eq!(out.len(), first, "one request to each node, or to the one asked first");
        for action in &out {
            this.take(action, now);
        }
        this
    }

    fn quorum(&self) -> usize {
        self.params.nodes / 2 + 1
    }

    pub(super) fn is_open(&self) -> bool {
        !self.refused && !self.released
    }

    /// Returns whether the holder believes that it holds the lock.
    pub(super) fn is_held(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until) && !self.lost && !self.released && !self.lingers
    }

    /// Passes an event to the lease. `nodes` is given if the nodes keep their promises.
    pub(super) fn handle(
        &mut self,
        event: Event,
        now: Timestamp,
        nodes: Option<&[ModelNode]>,
    ) -> Vec<Action> {
        let woken = matches!(event, Event::Wake);
        if let Event::Release { .. } = event {
            self.released = true;
        }
        let mut out = Vec::new();
        self.lease.handle(event, now, &mut out);
        for action in &out {
            self.take(action, now);
            if let (Action::Acquired { until, .. } | Action::Renewed { until }, Some(nodes)) =
                (action, nodes)
            {
                let key_lives = |node: &&ModelNode| {
                    node.key(now).is_some_and(|key| key.expires >= Some(*until))
                };
                let keep = nodes.iter().filter(|node| node.holds(self.id, now)).filter(key_lives);
                assert!(keep.count() >= self.quorum(), "no quorum keeps the key for so long");
            }
        }
        if woken {
            assert!(!self.believes_past_the_end(now), "woken at the end, and still held");
            assert!(self.lease.next_wake().is_none_or(|at| at > now), "wakes without end");
        }
        if self.is_open() && !self.lost {
            assert!(self.lease.next_wake().is_some(), "nothing would ever end this");
        }
        if self.refused || self.released {
            let mut asked = self.heard.iter().zip(&self.asked).filter(|(_, asked)| **asked);
            assert!(
                asked.all(|(heard, _)| heard.is_release_sent() || heard.stores_none()),
                "a node was left out"
            );
        }
        out
    }

    fn believes_past_the_end(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now >= until)
            && !self.lost
            && !self.released
            && !self.lingers
    }

    /// Hands an answer to the lease.
    pub(super) fn deliver(
        &mut self,
        reply: ReplyInTransit,
        now: Timestamp,
        nodes: &[ModelNode],
        strict: bool,
    ) -> Vec<Action> {
        let ReplyInTransit { node, command, result } = reply;
        let first_of_release = self.heard[node].hear(self.started, command, &result);
        let failed = !matches!(result, Ok(Answer::Released(_)));
        let event = Event::Answer { node, op: op_id(command), result, view: None };
        let out = self.handle(event, now, strict.then_some(nodes));
        let orphaned = out.contains(&Action::Orphaned { node });
        if !first_of_release {
            assert!(!orphaned, "orphaned out of turn");
        } else if failed {
            // Requests arrive in order, so none is under way to the node after its release.
            assert!(orphaned || !nodes[node].holds(self.id, now), "node {node} keeps our key");
        } else {
            assert!(!orphaned, "the release was acknowledged");
        }
        out
    }

    /// Returns the end of the lease by the answers of a quorum.
    fn confirmed_until(&self) -> Timestamp {
        let mut confirmed: Vec<_> = self.heard.iter().map(|h| h.confirmed).collect();
        confirmed.sort_unstable();
        let from = confirmed[self.params.nodes - self.quorum()].expect("no quorum confirmed");
        from + self.params.validity
    }

    /// Releases the lease, which its process then keeps. Returns whether it does.
    pub(super) fn linger(&mut self, until: Timestamp, now: Timestamp) -> bool {
        let could = self.lease.can_be_handed_on(now);
        assert_eq!(self.lease.linger(until, now), could);
        self.lingers |= could;
        assert_eq!(self.lingers, self.lease.is_lingering());
        could
    }

    /// Hands the lease on to another holder of the process. Returns the token on success.
    pub(super) fn hand_on(
        &mut self,
        next: NextHolder,
        now: Timestamp,
        nodes: Option<&[ModelNode]>,
    ) -> Option<u64> {
        let could = self.lease.can_be_handed_on(now);
        let hand_off = self.lease.hand_on(next, now);
        assert_eq!(hand_off.is_some(), could);
        let HandOff { token, until } = hand_off?;
        assert!(self.is_held(now) || self.lingers, "handed on what is not held");
        self.lingers = false;
        assert!(now < until && until <= self.confirmed_until(), "no quorum confirmed so much");
        assert!(until <= now + next.max_hold, "beyond the next's limit");
        if let Some(nodes) = nodes {
            let keeps =
                |node: &&ModelNode| node.key(now).is_some_and(|key| key.expires >= Some(until));
            let keep = nodes.iter().filter(|node| node.holds(self.id, now)).filter(keeps);
            assert!(keep.count() >= self.quorum(), "no quorum keeps the key for so long");
        }
        let (first, last) = self.token.zip(self.newest).expect("it was granted");
        if self.params.proposal.is_some() {
            assert!(token > last && token <= block_end(first, self.params.block), "{token}");
        }
        self.params =
            LeaseParams { max_hold: next.max_hold, auto_extend: next.auto_extend, ..self.params };
        (self.held_from, self.newest, self.until) = (now, Some(token), Some(until));
        Some(token)
    }

    fn count(&self, what: impl Fn(&HeardAnswers) -> bool) -> usize {
        self.heard.iter().filter(|heard| what(heard)).count()
    }

    fn take(&mut self, action: &Action, now: Timestamp) {
        let quorum = self.quorum();
        match *action {
            Action::Send { node, command } => {
                let heard = &mut self.heard[node];
                assert!(!heard.is_release_sent(), "{command:?} behind the release, to node {node}");
                heard.last_sent = Some(command);
                let is_release = command == LeaseCommand::Release;
                assert!(!self.lingers || is_release, "{command:?} while it lingers");
                // A lease that lingers ends by itself.
                self.released |= self.lingers;
                self.asked[node] = true;
                self.requests[node].push_back(command);
            }
            Action::Acquired { token, until } => {
                assert!(self.is_open() && self.until.is_none(), "decided twice");
                assert!(self.count(|heard| heard.granted) >= quorum, "no quorum granted");
                let accepted = self.count(|h| h.granted && h.accepted.contains(&token));
                match self.params.proposal {
                    Some(_) => assert!(accepted >= quorum, "no quorum accepted {token}"),
                    None => assert_eq!(token, 0),
                }
                assert!(now < until, "held too late");
                let limit = self.params.validity.min(self.params.max_hold);
                assert_eq!(until, self.started + limit);
                self.token = Some(token);
                self.newest = Some(token);
                self.until = Some(until);
            }
            Action::Refused(_) => {
                assert!(self.is_open() && self.until.is_none(), "decided twice");
                self.refused = true;
            }
            Action::Renewed { until } => {
                assert!(self.is_held(now), "revived");
                assert!(Some(until) >= self.until, "a renewal shortens");
                assert!(until <= self.held_from + self.params.max_hold, "beyond the limit");
                assert!(until <= self.confirmed_until(), "no quorum confirmed so much");
                self.until = Some(until);
            }
            Action::Renewing => assert!(self.is_held(now), "renewed past the end"),
            Action::Lost(ref loss) => {
                assert!(!self.lost && !self.released && self.until.is_some(), "lost twice");
                let stolen = matches!(loss, Loss::Stolen { .. });
                let ended = self.until.is_some_and(|until| now >= until);
                let denied = self.count(|heard| heard.denied);
                assert!(if stolen { denied >= quorum } else { ended }, "gave up: {loss:?}");
                self.lost = true;
            }
            Action::Extended(_) => assert!(self.until.is_some()),
            Action::Orphaned { node } => self.orphaned[node] = true,
            Action::Released(ref verdict) => {
                let deleted = self.count(|heard| heard.release == Some(Ok(true)));
                let said_so = self.count(|heard| heard.release == Some(Ok(false)));
                let refused = self.count(HeardAnswers::stores_none);
                let unasked = self.asked.iter().filter(|asked| !**asked).count();
                let missing = said_so + refused + unasked;
                match verdict {
                    ReleaseVerdict::Released => assert!(deleted >= quorum),
                    ReleaseVerdict::AlreadyLost => {
                        assert!(self.params.nodes - missing < quorum, "a quorum may have it");
                    }
                    ReleaseVerdict::NoQuorum { .. } => assert!(deleted < quorum),
                }
            }
        }
    }
}
