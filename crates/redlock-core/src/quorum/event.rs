//! The inputs and outputs of a lease: parameters, events, actions, commands, verdicts.

use std::{sync::Arc, time::Duration};

use crate::{
    protocol::{Answer, OpId, views::View},
    timestamp::Timestamp,
    vote::{Reason, VoteOutcome},
};

/// The parameters of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseParams {
    /// Number of configured nodes.
    pub nodes: usize,
    /// Validity of a grant: TTL − slack.
    pub validity: Duration,
    /// The part of the TTL that is set aside for clock jumps: smaller ones cost no confirmation.
    pub slack: Duration,
    /// Timeout for a node's answer.
    pub node_timeout: Duration,
    /// Maximum hold time, renewals included.
    pub max_hold: Duration,
    /// Whether the lease renews itself.
    pub auto_extend: bool,
    /// The proposed fencing token; `None` without fencing.
    pub proposal: Option<u64>,
    /// Number of tokens that the lease reserves from there on; at least one.
    pub block: u64,
    /// For a shared lease, the nodes' wall clock, in µs: no sound node has a fence that is further
    /// ahead of it than tokens may be. `None` for an exclusive one, whose proposal says the same.
    pub shared_at: Option<u64>,
    /// The node to ask before the others.
    pub lead_node: Option<LeadNode>,
}

/// The node that receives the first request, so that a single contender wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeadNode {
    /// The node's index.
    pub node: usize,
    /// Timeout for its answer, after which the requests to the others are sent.
    pub max_delay: Duration,
}

/// The next holder within the process; the TTL stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHolder {
    /// Maximum hold time, renewals included.
    pub max_hold: Duration,
    /// Whether the lease renews itself from now on.
    pub auto_extend: bool,
}

/// A lease as its next holder takes it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandOff {
    /// The fencing token, greater than the tokens of all former holders; zero without fencing.
    pub token: u64,
    /// The end of the validity.
    pub until: Timestamp,
}

/// An input to a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A node answered, or its answer is given up.
    Answer {
        /// The node's index.
        node: usize,
        /// The operation that it answers.
        op: OpId,
        /// The answer, or the reason why there is none that counts.
        result: Result<Answer, Reason>,
        /// The server's view; `None` from a node without views.
        view: Option<Arc<View>>,
    },
    /// An operation did not reach its node, and never will.
    NotSent {
        /// The node's index.
        node: usize,
        /// The operation.
        op: OpId,
        /// Why.
        reason: Reason,
    },
    /// The time of [`Lease::next_wake`](super::Lease::next_wake) may have come.
    Wake,
    /// A node's clock jumped. What the node confirmed before does not count if the jumps since then
    /// may exceed the [slack](LeaseParams::slack): the node may have dropped the key too early. Each
    /// jump is passed once, before the node's answers that follow it.
    Unsound {
        /// The node's index.
        node: usize,
        /// When the jump was detected.
        seen: Timestamp,
        /// The size of the jump in microseconds.
        by_micros: i64,
        /// Upper bound of the jump, in either direction.
        at_most: Duration,
    },
    /// Ends a held lease a little before its end, because timers fire late.
    Stop,
    /// The holder asks for an extension now.
    Extend,
    /// Ends renewal: the lease expires at the end of its validity.
    Halt(Halt),
    /// The holder releases the lock, or gives up while acquiring.
    Release {
        /// Whether the holder waits for the verdict.
        awaited: bool,
    },
}

/// Why a lease is not renewed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Halt {
    /// The work blocks in a poll.
    Stalled,
    /// The work sends no heartbeat.
    NoHeartbeat,
}

/// An output of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send a command to a node. Commands to one node are sent in the order of their actions.
    Send {
        /// The node's index.
        node: usize,
        /// The command.
        command: LeaseCommand,
    },
    /// The lock is held.
    Acquired {
        /// The fencing token; zero without fencing.
        token: u64,
        /// The end of the validity.
        until: Timestamp,
    },
    /// The attempt is over, and its release is under way.
    Refused(Refusal),
    /// The validity now ends at another time: later, unless a confirmation was taken back.
    Renewed {
        /// The new end of the validity.
        until: Timestamp,
    },
    /// A round of renewal begins.
    Renewing,
    /// An extension that the holder asked for is decided; the votes on failure.
    Extended(Result<(), Vec<VoteOutcome>>),
    /// The lock is not held any more.
    Lost(Loss),
    /// A node did not acknowledge the release and may still store the key.
    Orphaned {
        /// The node's index.
        node: usize,
    },
    /// The verdict on a release that the holder waits for.
    Released(ReleaseVerdict),
}

/// A command to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseCommand {
    /// Store the key if it is free, and accept the token if it is above the fence.
    Acquire {
        /// The proposed token; zero without fencing.
        token: u64,
        /// The end of the validity: the command is not sent after it.
        expires: Timestamp,
    },
    /// Store the block of this token if the key is this lease's and the token above the fence.
    Raise {
        /// The number of the raise, from 1.
        round: u8,
        /// The new token.
        token: u64,
    },
    /// Renew the key, or store it again if it is gone.
    Extend {
        /// When the extension was started; the validity counts from here.
        started: Timestamp,
        /// The end of the present validity: a key is not stored again after it.
        until: Timestamp,
    },
    /// Delete the key if it is this lease's.
    Release,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Another lease holds the resource.
    Held {
        /// Time until a quorum is free, if no key is renewed.
        expires_in: Option<Duration>,
        /// The holder.
        owner: Option<Arc<str>>,
        /// Whether the holder's process may keep the lease after a release. The refusing node has
        /// asked it for the lease.
        lingers: bool,
        /// Number of shared leases that hold it; zero for an exclusive one.
        readers: usize,
        /// The owner of an exclusive request that waits for shared leases, and so keeps others out.
        waiter: Option<Arc<str>>,
    },
    /// Too few nodes answered.
    NoQuorum {
        /// The vote of each node.
        votes: Vec<VoteOutcome>,
    },
    /// A quorum granted after the end of the validity.
    TooSlow {
        /// The time from the start to the count.
        elapsed: Duration,
    },
}

/// Why a held lock is not held any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The validity ran out.
    Expired {
        /// The latest vote of each node.
        votes: Vec<VoteOutcome>,
    },
    /// A quorum of nodes stores another lease's key.
    Stolen {
        /// The other lease's owner.
        owner: Option<Arc<str>>,
    },
    /// Clocks jumped, and fewer than a quorum of sound nodes are left.
    ClockJumped {
        /// The latest vote of each node.
        votes: Vec<VoteOutcome>,
    },
    /// The maximum hold time was reached.
    MaxHold,
    /// The validity ran out after the lease was halted.
    Halted(Halt),
}

/// The verdict on a release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseVerdict {
    /// A quorum deleted the key.
    Released,
    /// Too many nodes had no key of this lease for a quorum to have deleted it.
    AlreadyLost,
    /// Too few nodes acknowledged.
    NoQuorum {
        /// The vote of each node.
        votes: Vec<VoteOutcome>,
    },
}
