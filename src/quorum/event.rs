use std::{sync::Arc, time::Duration};

use crate::{
    error::{Reason, VoteOutcome},
    protocol::{Answer, OpId, names::View},
    time::Timestamp,
};

/// What happens to a lease.
#[derive(Clone, Debug)]
pub enum Event {
    /// A node answered, or will not.
    Answer {
        /// The node's index.
        node: usize,
        /// The operation that it answers.
        op: OpId,
        /// The answer, or why there is none that counts.
        result: Result<Answer, Reason>,
        /// What the server was, and what it took the others for; `None` from a node that keeps no
        /// views.
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
    /// The moment of [`Lease::next_wake`](super::Lease::next_wake) may have come.
    Wake,
    /// A node's clock jumped; it was seen at that moment. What the node confirmed before is worth
    /// nothing if the jumps since then may exceed what is set aside of the TTL: the node may have
    /// dropped the key too early. Each jump is told once, and before what the node answers after it.
    Unsound {
        /// The node's index.
        node: usize,
        /// When it was seen.
        seen: Timestamp,
        /// By how many microseconds it jumped.
        by_micros: i64,
        /// The most that it can have been, in either direction.
        at_most: Duration,
    },
    /// Another clock says that the validity is over.
    Expired,
    /// The end is near, and timers fire late: a lease that is held is over now. Where it is not
    /// renewed any more, or no quorum has answered in time, nothing is lost by that but the rest.
    Stop,
    /// The holder asks for an extension now.
    Extend,
    /// The holder does not do its part: what is valid runs out, and is not renewed any more.
    Halt(Halt),
    /// The holder gives up: it is done, or it lost interest while acquiring.
    Release {
        /// Whether somebody waits for the acknowledgement.
        awaited: bool,
    },
}

/// Why a lease is not renewed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The work hangs in a poll.
    Stalled,
    /// The work gives no sign of life.
    NoHeartbeat,
}

/// What a lease wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send a command to a node. Commands to one node are sent in the order of their actions.
    Send {
        /// The node's index.
        node: usize,
        /// The command.
        command: Command,
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
    /// The validity now ends at another time: later, unless a node's word was taken back.
    Renewed {
        /// The new end of the validity.
        until: Timestamp,
        /// The start of the round that it counts from.
        counted_from: Timestamp,
    },
    /// A round of renewal begins.
    Renewing,
    /// An extension that the holder asked for is decided; on failure, what the nodes said.
    Extended(Result<(), Vec<VoteOutcome>>),
    /// The lock is not held any more.
    Lost(Loss),
    /// A node did not acknowledge the release, and may still keep the key.
    Orphaned {
        /// The node's index.
        node: usize,
    },
    /// It is decided whether a quorum acknowledged the release.
    Released(ReleaseVerdict),
}

/// A command to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Store the key if it is free, and accept the token if it is above the fence.
    Acquire {
        /// The proposed token; zero without fencing.
        token: u64,
        /// The end of the validity: not to be sent after it.
        expires: Timestamp,
    },
    /// Where the key is still ours: store the block of this token if it is above the fence.
    Raise {
        /// Which raise this is, from 1.
        round: u8,
        /// The new token.
        token: u64,
    },
    /// Renew the key, or store it again where it is gone.
    Extend {
        /// When this extension was started; the validity counts from here.
        started: Timestamp,
        /// The end of the present validity: a key is not stored again after it.
        until: Timestamp,
    },
    /// Delete the key where it is ours.
    Release,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Someone else holds the resource.
    Held {
        /// When a quorum would be free without renewals.
        expires_in: Option<Duration>,
        /// Who holds it.
        owner: Option<Arc<str>>,
    },
    /// Too few nodes answered.
    NoQuorum {
        /// What each node said.
        votes: Vec<VoteOutcome>,
    },
    /// A quorum granted after the end of the validity.
    TooSlow {
        /// From the start to the count.
        elapsed: Duration,
    },
}

/// Why a held lock is not held any more.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// The validity ran out.
    Expired {
        /// What each node said last.
        votes: Vec<VoteOutcome>,
    },
    /// A quorum of nodes keeps the key for another.
    Stolen {
        /// Who.
        owner: Option<Arc<str>>,
    },
    /// Nodes' clocks jumped, and fewer than a quorum of sound ones are left.
    ClockJumped {
        /// What each node said last.
        votes: Vec<VoteOutcome>,
    },
    /// The limit for holding was reached.
    MaxHold,
    /// The validity ran out after the lease was halted.
    Halted(Halt),
}

/// How a release came out.
#[derive(Clone, Debug, PartialEq)]
pub enum ReleaseVerdict {
    /// A quorum deleted our key.
    Released,
    /// So many nodes had no key of ours that no quorum can have deleted it.
    AlreadyLost,
    /// Too few nodes acknowledged.
    NoQuorum {
        /// What each node said.
        votes: Vec<VoteOutcome>,
    },
}
