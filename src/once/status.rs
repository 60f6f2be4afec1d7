//! The status of a key, and decisions about it by hand.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{OnceRequest, claim::KeyRequest, record, terms};
use crate::{
    error::LockError,
    lock::{
        Holder, Redlock,
        obligations::OwedEnd,
        records::{self, Asked},
    },
    protocol::{Answer, Record},
    quorum::records::RecordStatus,
    token::FencingToken,
};

/// The status of a key that is not free.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OnceStatus {
    /// The state of the key.
    pub state: OnceState,
    /// Owner name of the client that did, runs or started the work.
    pub by: Option<Arc<str>>,
    /// Time of the record or the start, by that client's wall clock.
    pub since: Option<SystemTime>,
    /// Time until it expires, if nothing renews it.
    pub remaining: Option<Duration>,
    /// Fencing token of the work; zero without fencing.
    pub token: FencingToken,
}

/// The state of a key that is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnceState {
    /// A client holds its lock and runs the work.
    InProgress,
    /// The work is done.
    Done,
    /// The work started and did not end, and the key is [held](super::UnknownOutcome::Hold).
    Unknown,
}

impl<C, G> OnceRequest<C, G> {
    /// Returns the status of the key; `None` if it is free. Restores the record of done work on nodes
    /// that lost it; changes nothing else.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if too few nodes answered, and
    /// [`LockError::InvalidResource`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn status(&self) -> Result<Option<OnceStatus>, LockError> {
        self.status_by(Redlock::read_record).await
    }

    /// Returns the [`status`](Self::status) of the key, and changes nothing. For pages and probes; the next
    /// request for the key restores a record that nodes lost.
    ///
    /// # Errors
    ///
    /// As [`status`](Self::status).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn inspect(&self) -> Result<Option<OnceStatus>, LockError> {
        self.status_by(Redlock::inspect_record).await
    }

    async fn status_by(
        &self,
        read: fn(&Redlock, &Arc<str>) -> Asked,
    ) -> Result<Option<OnceStatus>, LockError> {
        let KeyRequest { redlock, resource, .. } = &self.key;
        let resource = resource.as_ref().map_err(Clone::clone)?;
        let name = terms::name(resource);
        let answers = read(redlock, &name).await;
        let of = |state, record: &Record, remaining| OnceStatus {
            state,
            by: Some(Arc::clone(&record.lease.owner)),
            since: UNIX_EPOCH.checked_add(record.lease.since),
            remaining: Some(remaining),
            token: FencingToken::new(record.lease.token),
        };
        let begun = match records::status(&answers) {
            RecordStatus::Done { record, remaining } => {
                return Ok(Some(of(OnceState::Done, &record, remaining)));
            }
            RecordStatus::TooFew => return Err(redlock.no_quorum(&name, &answers)),
            RecordStatus::Nothing => None,
            RecordStatus::Unknown { record, remaining, .. } => {
                Some(of(OnceState::Unknown, &record, remaining))
            }
        };
        // Running work has a record too: that it has started.
        let holder = redlock.holder(resource).await?;
        Ok(match (holder, begun) {
            (Some(holder), None) => Some(in_progress(holder)),
            (Some(holder), Some(_)) if holder.is_quorum => Some(in_progress(holder)),
            (_, begun) => begun,
        })
    }

    /// Records that the work is done, without running it: for a person or a reconciler that has found
    /// its effect. `retain` and the lock's settings apply.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] while the work runs; [`LockError::NoQuorum`] and [`LockError::Lost`] if too
    /// few nodes stored the record: call it again. [`LockError::TooManyRecords`] above the manager's
    /// limit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock; the nodes may have stored the record.
    pub async fn mark_done(self) -> Result<(), LockError> {
        let KeyRequest { redlock, resource, lock, terms, .. } = self.key;
        terms.check()?;
        // Its lock would be held by this process.
        redlock.cancel_owed_record(&terms::name(&resource?));
        let lock = lock.await?;
        let lease = lock.lease();
        records::reserve(lease, None)?;
        let name = terms::name(lease.resource());
        let done = record::new(lease, true, Arc::default());
        let time = record::store_time(lease);
        let lease = Arc::clone(lease);
        let owed = OwedEnd::record(Some(lock), &lease, &name, &done, terms.retain);
        owed.stored_within(time).await
    }

    /// Removes the record that the work is done or has started: the next request runs it again.
    /// Returns whether there was a record.
    ///
    /// A concurrent request for the key may restore the record: check [`status`](Self::status)
    /// afterwards, and forget again.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] while the work runs; [`LockError::NoQuorum`] if not every node answered: a
    /// node that still has the record would restore it on the others. Call it again when all nodes are
    /// reachable.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock; some nodes may have removed the record.
    pub async fn forget(self) -> Result<bool, LockError> {
        let KeyRequest { redlock, resource, lock, .. } = self.key;
        // Its lock would be held by this process.
        redlock.cancel_owed_record(&terms::name(&resource?));
        let lock = lock.await?;
        let name = terms::name(lock.resource());
        let kept = redlock.read_all_records(&name).await;
        if kept.iter().any(Result::is_err) {
            return Err(redlock.no_quorum(&name, &kept));
        }
        let mut nonces = Vec::new();
        for answer in kept.iter().flatten() {
            if let Answer::Recorded(Some((record, _))) = answer
                && !nonces.contains(&record.lease.nonce)
            {
                nonces.push(record.lease.nonce);
            }
        }
        for nonce in &nonces {
            let answers = redlock.forget_record(&name, *nonce).await;
            if answers.iter().any(Result::is_err) {
                return Err(redlock.no_quorum(&name, &answers));
            }
        }
        Ok(!nonces.is_empty())
    }
}

fn in_progress(holder: Holder) -> OnceStatus {
    OnceStatus {
        state: OnceState::InProgress,
        by: holder.owner,
        since: holder.since,
        remaining: holder.remaining,
        token: holder.token,
    }
}
