//! The state of a simulated server: what it stores, its mode, its probation and its queue.

use std::{
    collections::VecDeque,
    sync::{Arc, mpsc},
    time::Duration,
};

use super::{clock::ManualClock, network::Link};
use crate::{
    error::Reason,
    node::{EmbeddedNodes, Node, Reply},
    protocol::{AcquireOp, Answer, ClaimOp, ExtendOp, ForgetJobOp, Op, PrepareOp, RecordOp},
    time::{Clock, Timestamp},
};

/// Key prefix of the embedded node. The managers' prefixes have no effect here.
const PREFIX: &str = "redlock";

/// The state of a simulated server.
#[derive(Debug)]
pub(super) struct SimState {
    /// A set of one node.
    pub(super) set: EmbeddedNodes,
    /// The node of `set`.
    pub(super) node: Arc<dyn Node>,
    pub(super) mode: ServerMode,
    pub(super) since: Timestamp,
    /// The start and the end of the probation.
    pub(super) probation: Option<(Timestamp, Timestamp)>,
    /// Operations that were received and not run, in order.
    pub(super) queue: VecDeque<QueuedOp>,
    /// Whether the queue is being run, so that new operations are added to it.
    pub(super) is_draining: bool,
    pub(super) next_id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerMode {
    Running,
    Frozen,
    Stopped,
}

/// The voting state of a server, as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VoteState {
    /// Stopped or frozen.
    Away,
    Votes,
    InProbation,
    /// The probation is over, and the server has to learn from others.
    Due,
}

/// An operation that was received and not run.
#[derive(Debug)]
pub(super) struct QueuedOp {
    pub(super) id: u64,
    pub(super) op: Op,
    /// `None` once the client stopped waiting.
    pub(super) reply: Option<Reply>,
    pub(super) sent: Timestamp,
    pub(super) from: Arc<Link>,
}

impl SimState {
    pub(super) fn new(clock: &ManualClock) -> Self {
        let set = EmbeddedNodes::with_clock(1, clock.clone());
        let node = set.nodes(PREFIX).next().expect("a set of one node");
        Self {
            node,
            set,
            probation: None,
            mode: ServerMode::Running,
            since: clock.now(),
            queue: VecDeque::new(),
            is_draining: false,
            next_id: 0,
        }
    }

    /// Returns the voting state at `now`, by the clock of the servers.
    pub(super) fn vote_state(&self, now: Timestamp) -> VoteState {
        match (self.mode, self.probation) {
            (ServerMode::Stopped | ServerMode::Frozen, _) => VoteState::Away,
            (ServerMode::Running, None) => VoteState::Votes,
            (ServerMode::Running, Some((_, until))) if now < until => VoteState::InProbation,
            (ServerMode::Running, Some(_)) => VoteState::Due,
        }
    }

    pub(super) fn enter(&mut self, mode: ServerMode, now: Timestamp) {
        if self.mode != mode {
            (self.mode, self.since) = (mode, now);
        }
    }

    pub(super) fn run(&self, op: Op, now: Timestamp) -> Result<Answer, Reason> {
        if let Some((_, until)) = self.probation
            && (op.is_vote() || matches!(op, Op::Extend(_)))
        {
            return Err(Reason::Probation { remaining: until.saturating_duration_since(now) });
        }
        let (answer, answered) = mpsc::channel();
        let reply = Reply::from_fn(move |result| {
            let _ = answer.send(result);
        });
        self.node.send(op, reply);
        answered.try_recv().unwrap_or(Err(Reason::Unknown))
    }

    /// Returns whether a server refuses the operation `waited` after it was sent: it then stores no
    /// key, but renews an existing one.
    pub(super) fn is_late(&self, op: &Op, waited: Duration) -> bool {
        match op {
            Op::Acquire(AcquireOp { ttl, .. }) => waited >= *ttl,
            Op::Prepare(PrepareOp { max_delay, .. })
            | Op::Claim(ClaimOp { max_delay, .. })
            | Op::ForgetJob(ForgetJobOp { max_delay, .. })
            | Op::Record(RecordOp { max_delay, .. }) => waited > *max_delay,
            Op::Extend(ExtendOp { lease, max_delay, .. }) => {
                let is_gone = |name: &Arc<str>| {
                    let stored = self.run(Op::Inspect([Arc::clone(name)].into()), Timestamp::ZERO);
                    matches!(stored, Ok(Answer::Inspected(found)) if found == [None])
                };
                waited > *max_delay && lease.resource().shared_names().iter().any(is_gone)
            }
            _ => false,
        }
    }
}
