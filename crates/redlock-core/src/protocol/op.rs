//! The operations of a node.

use std::{sync::Arc, time::Duration};

#[cfg(doc)]
use super::{answer::Answer, tick_claim::TickClaim};
use super::{
    answer::Record,
    job_op::{ClaimOp, ForgetJobOp, PrepareOp},
    lease_id::{LeaseId, Nonce},
    scan::ScanOp,
};
use crate::timestamp::Timestamp;

/// A request to one node.
#[derive(Clone, Debug)]
pub enum Op {
    /// Stores the lease's keys for `ttl` if all of them are free. If `token` is above the fence of
    /// the resource's stripes as well, stores the end of the token's block as the new fence.
    /// Answered by [`Answer::Granted`] or [`Answer::Held`].
    ///
    /// A [shared](LeaseId::is_shared) lease takes the key beside other shared ones. It replaces an
    /// exclusive lease with its nonce.
    Acquire(AcquireOp),
    /// Stores the end of the token's block as the new fence, if the keys still belong to the lease
    /// and `token` is above the fence. Answered by [`Answer::Raised`], or by
    /// [`Reason::KeyGone`](crate::vote::Reason::KeyGone).
    Raise(RaiseOp),
    /// Sets the TTL of the lease's keys to `ttl`, and stores missing keys again, but not after
    /// `until`. Answered by [`Answer::Extended`] or [`Answer::Held`].
    Extend(ExtendOp),
    /// Deletes the keys that belong to the lease. Answered by [`Answer::Released`].
    Release(Arc<LeaseId>),
    /// Ends all shared leases on a name, and no exclusive one. Answered by [`Answer::Released`].
    EndShared(Arc<str>),
    /// Removes the mark of an exclusive request that waits, by the [identity](AcquireOp::waiter) of the
    /// request. If no other one waits, the shared requests that the mark kept out are notified, and so are
    /// the owners of shared leases. Answered by [`Answer::Withdrawn`].
    Withdraw(Arc<LeaseId>),
    /// Reads the keys of names. Answered by [`Answer::Inspected`].
    Inspect(Arc<[Arc<str>]>),
    /// Promises to accept no claim of the job with a smaller token, and reads the stored claim.
    /// Answered by [`Answer::Promised`], or by [`Reason::Superseded`](crate::vote::Reason::Superseded)
    /// if a greater token was promised.
    Prepare(PrepareOp),
    /// Replaces the stored claim of the job, unless a greater token was promised, or the stored
    /// claim has the same token and a greater [number](TickClaim::number): claims of one token come
    /// from one holder, in the order of their numbers. Answered by [`Answer::Claimed`], or as
    /// [`Prepare`](Self::Prepare).
    Claim(ClaimOp),
    /// Reads the record of one name. Answered by [`Answer::Recorded`], or by
    /// [`Reason::Incomplete`](crate::vote::Reason::Incomplete) from a node that has no record, and
    /// has not copied all records since it forgot its own.
    ReadRecord(Arc<str>),
    /// Stores a record of the lease's name, if the key still belongs to the lease. Replaces a
    /// record unless that is of finished work. Answered by [`Answer::Recorded`] with the record
    /// that is stored now, or by [`Reason::KeyGone`](crate::vote::Reason::KeyGone).
    Record(RecordOp),
    /// Stores a record of finished work, unless there is one already: a copy of another node's, or by the
    /// client that did the work. It is true whether or not the node votes, so a node in probation stores it
    /// as well, before it grants the lock of the work. Answered by [`Answer::Recorded`].
    Repair(RepairOp),
    /// Deletes the record of a name if it has this nonce. Answered by [`Answer::Forgotten`].
    Forget(ForgetOp),
    /// Deletes the promise, the claim and the [documents](super::JobDocument) of a job, unless a greater
    /// token was promised. Answered by [`Answer::Forgotten`], or by
    /// [`Reason::Superseded`](crate::vote::Reason::Superseded).
    ForgetJob(ForgetJobOp),
    /// Reads the stored claims of jobs, at most [`MAX_JOBS_A_CALL`](Self::MAX_JOBS_A_CALL). Answered
    /// by [`Answer::Claims`].
    Claims(Arc<[Arc<str>]>),
    /// Reads a page of the names of locks, records or jobs. A name that is kept from the first page
    /// to the last is on one of them. Answered by [`Answer::Scanned`].
    Scan(ScanOp),
}

impl Op {
    /// Maximum number of jobs in one [`Claims`](Self::Claims).
    pub const MAX_JOBS_A_CALL: usize = 500;
    /// Maximum number of jobs in one namespace whose claims a node keeps.
    pub const MAX_JOBS: usize = 10_000;
    /// Maximum number of names in one namespace under which a node keeps claims: each job has its
    /// own name and two [documents](super::JobDocument).
    pub const MAX_REGISTERS: usize = 3 * Self::MAX_JOBS;

    /// Returns the lease that the operation belongs to, if any.
    pub fn lease(&self) -> Option<&Arc<LeaseId>> {
        match self {
            Self::Acquire(AcquireOp { lease, .. })
            | Self::Raise(RaiseOp { lease, .. })
            | Self::Extend(ExtendOp { lease, .. })
            | Self::Release(lease)
            | Self::Record(RecordOp { lease, .. }) => Some(lease),
            Self::EndShared(_)
            | Self::Withdraw(_)
            | Self::Inspect(_)
            | Self::Scan(_)
            | Self::Prepare(_)
            | Self::Claim(_)
            | Self::Claims(_)
            | Self::ReadRecord(_)
            | Self::Repair(_)
            | Self::Forget(_)
            | Self::ForgetJob(_) => None,
        }
    }

    /// Returns whether the answer counts towards a quorum. A node without a vote answers no such
    /// operation.
    pub fn is_vote(&self) -> bool {
        !matches!(
            self,
            Self::Extend(_)
                | Self::Release(_)
                | Self::EndShared(_)
                | Self::Withdraw(_)
                | Self::Inspect(_)
                | Self::Scan(_)
                | Self::Repair(_)
                | Self::Forget(_)
        )
    }

    /// Returns whether it is too late at `now` to send the operation.
    ///
    /// An acquire or a record does not become stale by the end of its lease: the release follows
    /// it, and the answer belongs to the verdict, or the work is done.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        match self {
            Self::Acquire(AcquireOp { expires, .. }) => now >= *expires,
            Self::Raise(RaiseOp { lease, .. }) => lease.is_over(),
            Self::Extend(ExtendOp { lease, until, .. }) => lease.is_over() || now >= *until,
            Self::Record(RecordOp { until, .. }) => now >= *until,
            Self::Release(_)
            | Self::EndShared(_)
            | Self::Withdraw(_)
            | Self::Inspect(_)
            | Self::Scan(_)
            | Self::Prepare(_)
            | Self::Claim(_)
            | Self::Claims(_)
            | Self::ReadRecord(_)
            | Self::Repair(_)
            | Self::Forget(_)
            | Self::ForgetJob(_) => false,
        }
    }

    /// Returns whether the operation must not be sent a second time: the release of its lease may
    /// have been sent, and would not undo a later command.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Release(_)) && self.lease().is_some_and(|lease| lease.is_over())
    }
}

/// Time for which a node remembers that an exclusive request waits, from its last attempt on. Requests
/// repeat their attempts, and withdraw at their end, so this is for those whose process crashed.
pub const WAIT_MARK_TTL: Duration = Duration::from_secs(2);

/// The parameters of [`Op::Acquire`].
#[derive(Clone, Debug)]
pub struct AcquireOp {
    /// The lease.
    pub lease: Arc<LeaseId>,
    /// TTL of the keys, from when the operation is sent: a server that runs it later keeps them for
    /// less.
    pub ttl: Duration,
    /// The proposed fencing token; zero without fencing.
    pub token: u64,
    /// The end of the block of tokens that the lease reserves: the new fence.
    pub block_end: u64,
    /// The end of the requested validity. The operation is not sent after it.
    pub expires: Timestamp,
    /// The identity of the request, if it waits when it is refused: the identity of its first attempt. The node
    /// then reports the release; and if shared leases refuse an exclusive request, it takes no further ones
    /// until the request [withdraws](Op::Withdraw), or for [`WAIT_MARK_TTL`] after its last attempt.
    pub waiter: Option<Arc<LeaseId>>,
}

impl AcquireOp {
    /// Creates an acquire without fencing, of a request that does not wait.
    pub const fn new(lease: Arc<LeaseId>, ttl: Duration, expires: Timestamp) -> Self {
        Self { lease, ttl, token: 0, block_end: 0, expires, waiter: None }
    }

    /// Sets the proposed fencing token, and the end of the block of tokens that the lease reserves.
    #[must_use]
    pub const fn fencing(mut self, token: u64, block_end: u64) -> Self {
        self.token = token;
        self.block_end = block_end;
        self
    }

    /// Sets the identity of the request, which waits if it is refused.
    #[must_use]
    pub fn waits(mut self, waiter: Arc<LeaseId>) -> Self {
        self.waiter = Some(waiter);
        self
    }
}

/// The parameters of [`Op::Raise`].
#[derive(Clone, Debug)]
pub struct RaiseOp {
    /// The lease.
    pub lease: Arc<LeaseId>,
    /// The new fencing token.
    pub token: u64,
    /// The end of its block: the new fence.
    pub block_end: u64,
}

impl RaiseOp {
    /// Creates a raise of the fence to `block_end`.
    pub const fn new(lease: Arc<LeaseId>, token: u64, block_end: u64) -> Self {
        Self { lease, token, block_end }
    }
}

/// The parameters of [`Op::Extend`].
#[derive(Clone, Debug)]
pub struct ExtendOp {
    /// The lease.
    pub lease: Arc<LeaseId>,
    /// TTL of the keys, from now.
    pub ttl: Duration,
    /// The lease's fencing token, for keys that are stored again; zero without fencing.
    pub token: u64,
    /// The end of the current validity.
    pub until: Timestamp,
    /// Time after sending within which the server may store keys again.
    pub max_delay: Duration,
}

impl ExtendOp {
    /// Creates an extension of a lease without fencing.
    pub const fn new(
        lease: Arc<LeaseId>,
        ttl: Duration,
        until: Timestamp,
        max_delay: Duration,
    ) -> Self {
        Self { lease, ttl, token: 0, until, max_delay }
    }

    /// Sets the lease's fencing token.
    #[must_use]
    pub const fn token(mut self, token: u64) -> Self {
        self.token = token;
        self
    }
}

/// The parameters of [`Op::Record`].
#[derive(Clone, Debug)]
pub struct RecordOp {
    /// The lease, of one name.
    pub lease: Arc<LeaseId>,
    /// The record; its nonce is the lease's.
    pub record: Arc<Record>,
    /// Time for which the record is kept.
    pub retain: Duration,
    /// The end of the lease's validity. The record is not stored after it.
    pub until: Timestamp,
    /// Time after sending within which the server may run the operation.
    pub max_delay: Duration,
}

impl RecordOp {
    /// Creates an operation that stores `record` under the lease.
    pub const fn new(
        lease: Arc<LeaseId>,
        record: Arc<Record>,
        retain: Duration,
        until: Timestamp,
        max_delay: Duration,
    ) -> Self {
        Self { lease, record, retain, until, max_delay }
    }
}

/// The parameters of [`Op::Repair`].
#[derive(Clone, Debug)]
pub struct RepairOp {
    /// The name.
    pub name: Arc<str>,
    /// The record.
    pub record: Arc<Record>,
    /// Remaining time for which the record is kept.
    pub retain: Duration,
}

impl RepairOp {
    /// Creates an operation that copies `record` to the node.
    pub const fn new(name: Arc<str>, record: Arc<Record>, retain: Duration) -> Self {
        Self { name, record, retain }
    }
}

/// The parameters of [`Op::Forget`].
#[derive(Clone, Debug)]
pub struct ForgetOp {
    /// The name.
    pub name: Arc<str>,
    /// The nonce of the record.
    pub nonce: Nonce,
}

impl ForgetOp {
    /// Creates an operation that deletes the record with this nonce.
    pub const fn new(name: Arc<str>, nonce: Nonce) -> Self {
        Self { name, nonce }
    }
}

/// Identifies an operation of one lease on one node.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpId {
    /// The first request.
    Acquire,
    /// The n-th raise of the fencing token, from 1.
    Raise(u8),
    /// An extension, by the time at which it was started.
    Extend(Timestamp),
    /// The release.
    Release,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{protocol::StoredLease, resource::Resource};

    const SECOND: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    fn lease() -> Arc<LeaseId> {
        let nonce = Nonce::from_bytes([7; 16]);
        Arc::new(LeaseId::new(Resource::of_invalid(""), nonce, "owner".into(), SECOND))
    }

    #[test]
    fn only_needed_answers_are_votes() {
        let name: Arc<str> = "name".into();
        let acquire = AcquireOp::new(lease(), SECOND, at(100));
        assert!(Op::Acquire(acquire).is_vote());
        assert!(Op::ReadRecord(Arc::clone(&name)).is_vote());
        assert!(!Op::Extend(ExtendOp::new(lease(), SECOND, at(100), SECOND)).is_vote());
        assert!(!Op::Release(lease()).is_vote());
        assert!(!Op::Inspect([name].into()).is_vote());
    }

    #[test]
    fn operations_are_stale_at_their_end() {
        let lease = lease();
        let acquire = Op::Acquire(AcquireOp::new(Arc::clone(&lease), SECOND, at(100)));
        let extend = Op::Extend(ExtendOp::new(Arc::clone(&lease), SECOND, at(100), SECOND));
        let stored = StoredLease::new(lease.nonce(), 1, SECOND, "owner".into());
        let record = Arc::new(Record::new(false, stored, Arc::from([])));
        let record = RecordOp::new(Arc::clone(&lease), record, SECOND, at(100), SECOND);

        for op in [&acquire, &extend, &Op::Record(record)] {
            assert!(!op.is_stale(at(99)) && op.is_stale(at(100)), "{op:?}");
        }
        lease.end();

        assert!(!acquire.is_stale(at(99)), "its release follows it");
        assert!(extend.is_stale(at(99)));
        assert!(!Op::Release(lease).is_stale(at(1_000)));
    }

    #[test]
    fn lease_keeps_time_of_request() {
        assert_eq!(lease().since(), SECOND);
    }
}
