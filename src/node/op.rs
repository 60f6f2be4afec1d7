use std::{sync::Arc, time::Duration};

use super::{LeaseId, Nonce, TickClaim};
use crate::time::Timestamp;

/// A question to one node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Op {
    /// Store the lease's keys where all of them are free, for `ttl`. Where they were stored, and
    /// `token` is above the fence of the resource's stripes, store the end of the token's block
    /// as the new fence. Answered by [`Answer::Granted`] or [`Answer::Held`].
    Acquire {
        /// The lease.
        lease: Arc<LeaseId>,
        /// How long the keys live.
        ttl: Duration,
        /// The proposed fencing token; zero means without fencing.
        token: u64,
        /// The end of the block of tokens that the lease reserves: the new fence.
        block_end: u64,
        /// The end of the validity that it asks for: not to be sent after it.
        expires: Timestamp,
        /// How long after it was sent the server may still run it.
        patience: Duration,
    },
    /// Where the keys are still the lease's, and `token` is above the fence: store the end of its
    /// block. Answered by [`Answer::Raised`], or by
    /// [`Reason::KeyGone`](crate::Reason::KeyGone).
    Raise {
        /// The lease.
        lease: Arc<LeaseId>,
        /// The new token.
        token: u64,
        /// The end of its block: the new fence.
        block_end: u64,
    },
    /// Let the lease's keys live for `ttl` from now; store them again where they are gone, but
    /// not after `until`. Answered by [`Answer::Extended`] or [`Answer::Held`].
    Extend {
        /// The lease.
        lease: Arc<LeaseId>,
        /// How long the keys live from now.
        ttl: Duration,
        /// The lease's token, to be stored with a key that is stored again.
        token: u64,
        /// The end of the present validity.
        until: Timestamp,
        /// How long after it was sent the server may still store keys again.
        patience: Duration,
    },
    /// Delete the lease's keys, and nobody else's. Answered by [`Answer::Released`].
    Release {
        /// The lease.
        lease: Arc<LeaseId>,
    },
    /// Tell who holds one name. Answered by [`Answer::Inspected`].
    Inspect {
        /// The name.
        name: Arc<str>,
    },
    /// Promise to take no claim of the job with a smaller token, and tell the claim that is kept.
    /// Answered by [`Answer::Promised`], or by [`Reason::Superseded`](crate::Reason::Superseded)
    /// where a greater token was promised.
    Prepare {
        /// The job.
        job: Arc<str>,
        /// The fencing token of the job's lock, held by who asks.
        token: u64,
        /// How long after it was sent the server may still run it.
        patience: Duration,
    },
    /// Keep a claim of the job in place of the one before, unless a greater token was promised.
    /// Answered by [`Answer::Claimed`], or as [`Prepare`](Self::Prepare).
    Claim {
        /// The job.
        job: Arc<str>,
        /// The claim.
        claim: Arc<TickClaim>,
        /// How long after it was sent the server may still run it.
        patience: Duration,
    },
    /// Tell the claims that are kept of some jobs. Answered by [`Answer::Claims`].
    Claims {
        /// The jobs; at most [`MAX_JOBS_A_CALL`](Self::MAX_JOBS_A_CALL).
        jobs: Arc<[Arc<str>]>,
    },
}

impl Op {
    /// Of so many jobs at most [`Claims`](Self::Claims) are asked for at once.
    pub const MAX_JOBS_A_CALL: usize = 500;
    /// So many jobs a node keeps claims of, in one namespace.
    pub const MAX_JOBS: usize = 10_000;

    /// The lease that the operation belongs to, if it belongs to one.
    pub fn lease(&self) -> Option<&Arc<LeaseId>> {
        match self {
            Self::Acquire { lease, .. }
            | Self::Raise { lease, .. }
            | Self::Extend { lease, .. }
            | Self::Release { lease } => Some(lease),
            Self::Inspect { .. }
            | Self::Prepare { .. }
            | Self::Claim { .. }
            | Self::Claims { .. } => None,
        }
    }

    /// Whether the answer counts towards a quorum: a grant, or what belongs to one, or the word on a
    /// job's claim. A node without a vote gives none.
    pub fn is_vote(&self) -> bool {
        !matches!(self, Self::Extend { .. } | Self::Release { .. } | Self::Inspect { .. })
    }

    /// Whether it is too late to send the operation at the moment `now`. A release is never too
    /// late, and neither is an acquire whose lease is over already: its release follows behind it,
    /// and the node's word belongs to the verdict.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        match self {
            Self::Acquire { expires, .. } => now >= *expires,
            Self::Raise { lease, .. } => lease.is_over(),
            Self::Extend { lease, until, .. } => lease.is_over() || now >= *until,
            Self::Release { .. }
            | Self::Inspect { .. }
            | Self::Prepare { .. }
            | Self::Claim { .. }
            | Self::Claims { .. } => false,
        }
    }

    /// Whether the operation must not be sent a second time: its release may be on the way, and a
    /// command behind it would not be undone.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Release { .. }) && self.lease().is_some_and(|lease| lease.is_over())
    }
}

/// What a node says, where its vote counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The keys are stored for the lease.
    Granted {
        /// Whether the proposed token was above the fence and is now the fence.
        accepted: bool,
        /// The fence before.
        fence: u64,
    },
    /// At least one of the keys is someone else's; nothing was stored.
    Held {
        /// Who holds it; `None` for a key that this crate did not write.
        owner: Option<Arc<str>>,
        /// For how long still; `None` without a TTL.
        remaining: Option<Duration>,
        /// The fence; zero in the answer to an extension, which does not read it.
        fence: u64,
    },
    /// The keys are still the lease's.
    Raised {
        /// Whether the token was above the fence and its block is now stored.
        accepted: bool,
        /// The fence before.
        fence: u64,
    },
    /// The keys are the lease's for the TTL from now.
    Extended,
    /// The lease's keys are not on the node any more.
    Released {
        /// Whether all of them were there before.
        existed: bool,
    },
    /// What the node stores under the name, if anything.
    Inspected(Option<Stored>),
    /// No claim with a smaller token will be taken.
    Promised {
        /// When the node lost what it knew, in µs since the Unix epoch and 60 s later; zero if it
        /// never did. See [`TickClaim::burnt_before`].
        floor: u64,
        /// The claim that is kept.
        claim: Option<TickClaim>,
    },
    /// The claim is kept.
    Claimed,
    /// What is kept of each job that was asked for, in their order.
    Claims {
        /// As in [`Promised`](Self::Promised).
        floor: u64,
        /// The claims.
        claims: Vec<Option<TickClaim>>,
    },
}

/// A lock's key as a node stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// Whose it is; `None` for a key that this crate did not write.
    pub lease: Option<StoredLease>,
    /// For how long still; `None` without a TTL.
    pub remaining: Option<Duration>,
}

/// Whose a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredLease {
    /// The secret of the lease. Never shown.
    pub nonce: Nonce,
    /// The fencing token that the lease asked for; zero without fencing.
    pub token: u64,
    /// When it was asked for, by the holder's wall clock: time since the Unix epoch.
    pub since: Duration,
    /// The holder, as it calls itself.
    pub owner: Arc<str>,
}

impl Stored {
    /// What is stored.
    pub const fn new(lease: Option<StoredLease>, remaining: Option<Duration>) -> Self {
        Self { lease, remaining }
    }
}

impl StoredLease {
    /// The parts of a lease as a node stores them.
    pub const fn new(nonce: Nonce, token: u64, since: Duration, owner: Arc<str>) -> Self {
        Self { nonce, token, since, owner }
    }
}

impl Answer {
    /// The fence that the answer tells, or zero.
    pub fn fence(&self) -> u64 {
        match self {
            Self::Granted { fence, .. } | Self::Held { fence, .. } | Self::Raised { fence, .. } => {
                *fence
            }
            Self::Extended
            | Self::Released { .. }
            | Self::Inspected(_)
            | Self::Promised { .. }
            | Self::Claimed
            | Self::Claims { .. } => 0,
        }
    }
}

/// Names an operation of one lease on one node.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpId {
    /// The first request.
    Acquire,
    /// The n-th raise of the fencing token, from 1.
    Raise(u8),
    /// An extension, by the moment when it was started.
    Extend(Timestamp),
    /// The release.
    Release,
}
