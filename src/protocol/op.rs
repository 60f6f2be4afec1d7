use std::{sync::Arc, time::Duration};

#[cfg(doc)]
use super::Answer;
use super::{LeaseId, Nonce, Record, TickClaim};
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
        /// Who is refused will wait: the holder's release is to be told.
        waits: bool,
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
    /// Keep a claim of the job in place of the one before, unless a greater token was promised, or
    /// one with the same token and a greater [number](TickClaim::number) is kept: these come from
    /// one holder, in the order of their numbers.
    /// Answered by [`Answer::Claimed`], or as [`Prepare`](Self::Prepare).
    Claim {
        /// The job.
        job: Arc<str>,
        /// The claim.
        claim: Arc<TickClaim>,
        /// How long after it was sent the server may still run it.
        patience: Duration,
    },
    /// Tell what is recorded of one name. Answered by [`Answer::Recorded`], or by
    /// [`Reason::Incomplete`](crate::Reason::Incomplete) from a node that has nothing, and has not
    /// taken over all records since it forgot them.
    ReadRecord {
        /// The name.
        name: Arc<str>,
    },
    /// Where the lease's key is still the lease's: keep a record of its name, in place of one that
    /// is not of work that is done. Answered by [`Answer::Recorded`] with what is kept now, or by
    /// [`Reason::KeyGone`](crate::Reason::KeyGone).
    Record {
        /// The lease, of one name.
        lease: Arc<LeaseId>,
        /// The record; its nonce is the lease's.
        record: Arc<Record>,
        /// How long it is kept.
        retain: Duration,
        /// The end of the lease's validity: not to be kept after it.
        until: Timestamp,
        /// How long after it was sent the server may still run it.
        patience: Duration,
    },
    /// Keep a record of work that is done, which another node told, unless there is one already.
    /// Answered by [`Answer::Recorded`].
    Repair {
        /// The name.
        name: Arc<str>,
        /// The record.
        record: Arc<Record>,
        /// How long it is still to be kept.
        retain: Duration,
    },
    /// Delete the record of a name, if it is the one of this nonce. Answered by
    /// [`Answer::Forgotten`].
    Forget {
        /// The name.
        name: Arc<str>,
        /// Whose record.
        nonce: Nonce,
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
            | Self::Release { lease }
            | Self::Record { lease, .. } => Some(lease),
            Self::Inspect { .. }
            | Self::Prepare { .. }
            | Self::Claim { .. }
            | Self::Claims { .. }
            | Self::ReadRecord { .. }
            | Self::Repair { .. }
            | Self::Forget { .. } => None,
        }
    }

    /// Whether the answer counts towards a quorum: a grant, or what belongs to one, or the word on a
    /// job's claim. A node without a vote gives none.
    pub fn is_vote(&self) -> bool {
        !matches!(
            self,
            Self::Extend { .. } | Self::Release { .. } | Self::Inspect { .. } | Self::Forget { .. }
        )
    }

    /// Whether it is too late to send the operation at the moment `now`. A release is never too
    /// late, and neither is an acquire or a record whose lease is over already: its release follows
    /// behind it, and the node's word belongs to the verdict, or the work is done.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        match self {
            Self::Acquire { expires, .. } => now >= *expires,
            Self::Raise { lease, .. } => lease.is_over(),
            Self::Extend { lease, until, .. } => lease.is_over() || now >= *until,
            Self::Record { until, .. } => now >= *until,
            Self::Release { .. }
            | Self::Inspect { .. }
            | Self::Prepare { .. }
            | Self::Claim { .. }
            | Self::Claims { .. }
            | Self::ReadRecord { .. }
            | Self::Repair { .. }
            | Self::Forget { .. } => false,
        }
    }

    /// Whether the operation must not be sent a second time: its release may be on the way, and a
    /// command behind it would not be undone.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Release { .. }) && self.lease().is_some_and(|lease| lease.is_over())
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
