//! The operations of a node.

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
    Acquire(AcquireOp),
    /// Where the keys are still the lease's, and `token` is above the fence: store the end of its
    /// block. Answered by [`Answer::Raised`], or by
    /// [`Reason::KeyGone`](crate::error::Reason::KeyGone).
    Raise(RaiseOp),
    /// Let the lease's keys live for `ttl` from now; store them again where they are gone, but
    /// not after `until`. Answered by [`Answer::Extended`] or [`Answer::Held`].
    Extend(ExtendOp),
    /// Delete the lease's keys, and nobody else's. Answered by [`Answer::Released`].
    Release(Arc<LeaseId>),
    /// Tell who holds one name. Answered by [`Answer::Inspected`].
    Inspect(Arc<str>),
    /// Promise to take no claim of the job with a smaller token, and tell the claim that is kept.
    /// Answered by [`Answer::Promised`], or by [`Reason::Superseded`](crate::error::Reason::Superseded)
    /// where a greater token was promised.
    Prepare(PrepareOp),
    /// Keep a claim of the job in place of the one before, unless a greater token was promised, or
    /// one with the same token and a greater [number](TickClaim::number) is kept: these come from
    /// one holder, in the order of their numbers.
    /// Answered by [`Answer::Claimed`], or as [`Prepare`](Self::Prepare).
    Claim(ClaimOp),
    /// Tell what is recorded of one name. Answered by [`Answer::Recorded`], or by
    /// [`Reason::Incomplete`](crate::error::Reason::Incomplete) from a node that has nothing, and has not
    /// taken over all records since it forgot them.
    ReadRecord(Arc<str>),
    /// Where the lease's key is still the lease's: keep a record of its name, in place of one that
    /// is not of work that is done. Answered by [`Answer::Recorded`] with what is kept now, or by
    /// [`Reason::KeyGone`](crate::error::Reason::KeyGone).
    Record(RecordOp),
    /// Keep a record of work that is done, which another node told, unless there is one already.
    /// Answered by [`Answer::Recorded`].
    Repair(RepairOp),
    /// Delete the record of a name, if it is the one of this nonce. Answered by
    /// [`Answer::Forgotten`].
    Forget(ForgetOp),
    /// Tell the claims that are kept of some jobs, at most
    /// [`MAX_JOBS_A_CALL`](Self::MAX_JOBS_A_CALL). Answered by [`Answer::Claims`].
    Claims(Arc<[Arc<str>]>),
}

impl Op {
    /// Maximum number of jobs in one [`Claims`](Self::Claims).
    pub const MAX_JOBS_A_CALL: usize = 500;
    /// Maximum number of jobs in one namespace whose claims a node keeps.
    pub const MAX_JOBS: usize = 10_000;

    /// The lease that the operation belongs to, if it belongs to one.
    pub fn lease(&self) -> Option<&Arc<LeaseId>> {
        match self {
            Self::Acquire(AcquireOp { lease, .. })
            | Self::Raise(RaiseOp { lease, .. })
            | Self::Extend(ExtendOp { lease, .. })
            | Self::Release(lease)
            | Self::Record(RecordOp { lease, .. }) => Some(lease),
            Self::Inspect(_)
            | Self::Prepare(_)
            | Self::Claim(_)
            | Self::Claims(_)
            | Self::ReadRecord(_)
            | Self::Repair(_)
            | Self::Forget(_) => None,
        }
    }

    /// Whether the answer counts towards a quorum: a grant, or what belongs to one, or the word on a
    /// job's claim. A node without a vote gives none.
    pub fn is_vote(&self) -> bool {
        !matches!(self, Self::Extend(_) | Self::Release(_) | Self::Inspect(_) | Self::Forget(_))
    }

    /// Whether it is too late to send the operation at the moment `now`. A release is never too
    /// late, and neither is an acquire or a record whose lease is over already: its release follows
    /// behind it, and the node's word belongs to the verdict, or the work is done.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        match self {
            Self::Acquire(AcquireOp { expires, .. }) => now >= *expires,
            Self::Raise(RaiseOp { lease, .. }) => lease.is_over(),
            Self::Extend(ExtendOp { lease, until, .. }) => lease.is_over() || now >= *until,
            Self::Record(RecordOp { until, .. }) => now >= *until,
            Self::Release(_)
            | Self::Inspect(_)
            | Self::Prepare(_)
            | Self::Claim(_)
            | Self::Claims(_)
            | Self::ReadRecord(_)
            | Self::Repair(_)
            | Self::Forget(_) => false,
        }
    }

    /// Whether the operation must not be sent a second time: its release may be on the way, and a
    /// command behind it would not be undone.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Release(_)) && self.lease().is_some_and(|lease| lease.is_over())
    }
}

/// What [`Op::Acquire`] asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AcquireOp {
    /// The lease.
    pub lease: Arc<LeaseId>,
    /// How long the keys live.
    pub ttl: Duration,
    /// The proposed fencing token; zero means without fencing.
    pub token: u64,
    /// The end of the block of tokens that the lease reserves: the new fence.
    pub block_end: u64,
    /// The end of the validity that it asks for: not to be sent after it.
    pub expires: Timestamp,
    /// How long after it was sent the server may still run it.
    pub patience: Duration,
    /// Whether a refused client waits, and needs to be notified of the release.
    pub waits: bool,
}

impl AcquireOp {
    /// An acquire without fencing, of a request that does not wait.
    pub const fn new(
        lease: Arc<LeaseId>,
        ttl: Duration,
        expires: Timestamp,
        patience: Duration,
    ) -> Self {
        Self { lease, ttl, token: 0, block_end: 0, expires, patience, waits: false }
    }

    /// The proposed fencing token, and the end of the block of tokens that the lease reserves.
    #[must_use]
    pub const fn fencing(mut self, token: u64, block_end: u64) -> Self {
        self.token = token;
        self.block_end = block_end;
        self
    }

    /// Whether the request waits where it is refused.
    #[must_use]
    pub const fn waits(mut self, waits: bool) -> Self {
        self.waits = waits;
        self
    }
}

/// What [`Op::Raise`] asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RaiseOp {
    /// The lease.
    pub lease: Arc<LeaseId>,
    /// The new token.
    pub token: u64,
    /// The end of its block: the new fence.
    pub block_end: u64,
}

impl RaiseOp {
    /// A raise of the fence to `block_end`.
    pub const fn new(lease: Arc<LeaseId>, token: u64, block_end: u64) -> Self {
        Self { lease, token, block_end }
    }
}

/// What [`Op::Extend`] asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExtendOp {
    /// The lease.
    pub lease: Arc<LeaseId>,
    /// How long the keys live from now.
    pub ttl: Duration,
    /// The lease's token, to be stored with a key that is stored again.
    pub token: u64,
    /// The end of the present validity.
    pub until: Timestamp,
    /// How long after it was sent the server may still store keys again.
    pub patience: Duration,
}

impl ExtendOp {
    /// An extension of a lease without fencing.
    pub const fn new(
        lease: Arc<LeaseId>,
        ttl: Duration,
        until: Timestamp,
        patience: Duration,
    ) -> Self {
        Self { lease, ttl, token: 0, until, patience }
    }

    /// The lease's fencing token.
    #[must_use]
    pub const fn token(mut self, token: u64) -> Self {
        self.token = token;
        self
    }
}

/// What [`Op::Prepare`] asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PrepareOp {
    /// The job.
    pub job: Arc<str>,
    /// The fencing token of the job's lock, held by who asks.
    pub token: u64,
    /// How long after it was sent the server may still run it.
    pub patience: Duration,
}

impl PrepareOp {
    /// A question for the promise.
    pub const fn new(job: Arc<str>, token: u64, patience: Duration) -> Self {
        Self { job, token, patience }
    }
}

/// What [`Op::Claim`] asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaimOp {
    /// The job.
    pub job: Arc<str>,
    /// The claim.
    pub claim: Arc<TickClaim>,
    /// How long after it was sent the server may still run it.
    pub patience: Duration,
}

impl ClaimOp {
    /// A claim to be kept.
    pub const fn new(job: Arc<str>, claim: Arc<TickClaim>, patience: Duration) -> Self {
        Self { job, claim, patience }
    }
}

/// What [`Op::Record`] asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordOp {
    /// The lease, of one name.
    pub lease: Arc<LeaseId>,
    /// The record; its nonce is the lease's.
    pub record: Arc<Record>,
    /// How long it is kept.
    pub retain: Duration,
    /// The end of the lease's validity: not to be kept after it.
    pub until: Timestamp,
    /// How long after it was sent the server may still run it.
    pub patience: Duration,
}

impl RecordOp {
    /// A record to be kept under the lease.
    pub const fn new(
        lease: Arc<LeaseId>,
        record: Arc<Record>,
        retain: Duration,
        until: Timestamp,
        patience: Duration,
    ) -> Self {
        Self { lease, record, retain, until, patience }
    }
}

/// What [`Op::Repair`] asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairOp {
    /// The name.
    pub name: Arc<str>,
    /// The record.
    pub record: Arc<Record>,
    /// How long it is still to be kept.
    pub retain: Duration,
}

impl RepairOp {
    /// A record to be copied to the node.
    pub const fn new(name: Arc<str>, record: Arc<Record>, retain: Duration) -> Self {
        Self { name, record, retain }
    }
}

/// What [`Op::Forget`] asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ForgetOp {
    /// The name.
    pub name: Arc<str>,
    /// Whose record.
    pub nonce: Nonce,
}

impl ForgetOp {
    /// A record to be deleted.
    pub const fn new(name: Arc<str>, nonce: Nonce) -> Self {
        Self { name, nonce }
    }
}

/// Names an operation of one lease on one node.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
